// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSince verifies the differences between tables, after few and after many changes, against a
// comparison of all images.
func TestSince(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	record := NewBuilder(remember)
	empty := record.Table()
	came, went := empty.Since(empty)
	require.Empty(t, came)
	require.Empty(t, went)
	tables := []*Table{empty}
	for i := range 300 {
		for range r.IntN(40) + 1 {
			start := uint64(r.IntN(1000)) * 0x80
			switch f := record.At(start); {
			case f == nil || r.IntN(8) == 0:
				origin := OriginBPF
				if r.IntN(4) == 0 {
					origin = OriginTrampoline
				}
				record.Load(NewFunction(origin, strconv.Itoa(r.IntN(9)), start, uint32(r.IntN(0x200)), int64(i)))
			case r.IntN(4) == 0:
				record.Replace(f, f.WithProgram(&Program{}, nil))
			default:
				record.Unload(f, int64(i))
			}
		}
		if r.IntN(9) == 0 {
			record.Evict(int64(i) + int64(remember.TTL))
		}
		tables = append(tables, record.Table())
	}
	for range 300 {
		from := r.IntN(len(tables))
		was, is := tables[from], tables[min(from+r.IntN(5), len(tables)-1)]
		came, went := is.Since(was)
		require.Equal(t, without(is, was), came)
		require.Equal(t, without(was, is), went)
	}
}

// without returns the images of one table that are not in another.
func without(t, other *Table) []*Image {
	others := make(map[*Image]bool)
	for _, f := range other.Loaded() {
		others[f] = true
	}
	images := slices.DeleteFunc(t.Loaded(), func(f *Image) bool { return others[f] })
	slices.SortFunc(images, func(a, b *Image) int { return cmp.Compare(a.Start, b.Start) })
	if len(images) == 0 {
		return nil
	}
	return images
}
