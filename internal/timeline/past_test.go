// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPast verifies a past against a list of its images, which have all lengths and overlap in many ways, also at both
// ends of the address space. Some records are late, and some lifetimes are truncated.
func TestPast(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range rounds(200) {
		h := newHistory(Limits{TTL: 1 << 40, MaxEntries: 1 + r.IntN(200)}, 0)
		area := []uint64{0, 0xffffffffc0000000, math.MaxUint64 - 1<<14}[r.IntN(3)]
		for now := range int64(300) {
			size := 1 + r.Uint64N(1<<r.IntN(14))
			start := area + r.Uint64N(1<<14-size)
			m := NewFunction([]Origin{OriginBPF, OriginTrampoline}[r.IntN(2)], "f", start, uint32(size), 4*now-r.Int64N(40)*r.Int64N(2))
			h.Load(m)
			h.Unload(h.At(start), 4*now+1+r.Int64N(3))
			if r.IntN(50) == 0 {
				h.TruncateLifetimes(Interval{From: 4*now - r.Int64N(40), To: 4 * now})
			}
		}
		past := h.past.share()
		require.Equal(t, len(h.unloaded), listed(&past))
		for i, m := range h.unloaded {
			for _, other := range h.unloaded[:i] {
				both := other.Start < m.End && m.Start < other.End
				require.False(t, both && other.Lifetime.Overlaps(m.Lifetime), "%v and %v", other.Lifetime, m.Lifetime)
			}
		}
		for range 300 {
			addr, after := area+r.Uint64N(1<<14), r.Int64N(1300)-50
			var had []*Image
			for _, m := range h.unloaded {
				if m.Start <= addr && addr < m.End {
					had = append(had, m)
				}
			}
			var want *Image
			if i := firstAfter(had, after); i < len(had) {
				want = had[i]
			}
			require.Same(t, want, past.next(addr, after))
			require.Equal(t, slices.ContainsFunc(had, (*Image).Yields), past.hasYielding(addr))
		}
		h.Evict(1 << 41)
		require.Zero(t, h.past.used)
	}
}

// listed returns the number of images of a past.
func listed(p *sharedPast) (n int) {
	for range p.all() {
		n++
	}
	return n
}

// TestAnImageIsListedTwiceAtMost verifies that an image is listed once or twice, whatever its length.
func TestAnImageIsListedTwiceAtMost(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 100_000 {
		size := 1 + r.Uint64N(1<<r.IntN(32))
		m := &Image{Start: r.Uint64N(math.MaxUint64 - size), EndKnown: true}
		m.End = m.Start + size
		class := classOf(m)
		first, last := keysOf(m, class)
		require.True(t, first == last || first+1 == last, "%#x to %#x", m.Start, m.End)
		require.True(t, m.Start <= first<<shiftOf(class) && last<<shiftOf(class) < m.End)
	}
}

// TestLookUpsVisitFewNodes verifies that a lookup does not walk the history: neither images that had the
// address at other times, nor images beside the address at the same time.
func TestLookUpsVisitFewNodes(t *testing.T) {
	const n, start = 50_000, uint64(0xffffffffc0000000)
	for _, c := range []struct {
		name  string
		image func(i int64) (start uint64, size uint32)
	}{
		{"at the same addresses", func(int64) (uint64, uint32) { return start, 0x100 }},
		{"beside the address", func(i int64) (uint64, uint32) {
			if i == 0 {
				return start + 0x80, 0x100
			}
			return start, 0x80 - uint32(i%0x20)
		}},
		{"around the address", func(i int64) (uint64, uint32) { return start + 0x7f*uint64(i%2) + uint64(i%3), 0x7d }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory(remember, 0)
			for i := range int64(n) {
				at, size := c.image(i)
				m := bpf("f", at, size, i*ms)
				h.Load(m)
				h.Unload(m, i*ms+ms/2)
			}
			past := h.past.share()
			for _, addr := range []uint64{start, start + 0x7e, start + 0x7f, start + 0x80, start + 0xff} {
				for _, after := range []int64{math.MinInt64, 0, n / 2 * ms, n * ms} {
					assert.Less(t, visited(&past, addr, after), 500, "%#x, %d", addr, after)
				}
			}
		})
	}
}

// visited returns the number of nodes that a search visits.
func visited(p *sharedPast, addr uint64, after int64) (nodes int) {
	var visit func(n *node, key uint64) bool
	visit = func(n *node, key uint64) (found bool) {
		nodes++
		if !n.mayHave(addr, after) || n.children == nil {
			return n.next(key, addr, after) != nil
		}
		for i := max(0, n.positionOf(key, after)); i < n.len && n.keys[i] <= key && !found; i++ {
			found = visit(n.children[i], key)
		}
		return found
	}
	for class, root := range p.roots {
		if root != nil {
			visit(root, addr>>shiftOf(class))
			visit(root, addr>>shiftOf(class)+1)
		}
	}
	return nodes
}
