// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSortByTime compares the order of records with that of a stable sort: of several rings' records, most of which are in order,
// and of records in any order.
func TestSortByTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var spare []Record
	for n := range 200 {
		var records []Record
		for ring := range uint32(n % 5) {
			for at := range random.IntN(20) {
				if random.IntN(10) < n%3 {
					at = random.IntN(20)
				}
				records = append(records, Record{CPU: ring, PID: uint32(len(records)), Time: int64(at)})
			}
		}
		want := slices.Clone(records)
		slices.SortStableFunc(want, func(a, b Record) int { return cmp.Compare(a.Time, b.Time) })
		records, spare = sortByTime(records, spare)
		require.Equal(t, want, records)
	}
}

// TestMemoryOfRecords verifies that batches use the memory of earlier ones, but for a batch of very many records, and that
// those that are held back come later.
func TestMemoryOfRecords(t *testing.T) {
	g := memoryRing(1<<23, 0, 0)
	r := memoryReader(g)
	r.opts.Window = time.Minute
	now := Boottime.Now()
	old, young := now-int64(time.Hour), now
	next := func(records int) []Record {
		t.Helper()
		young++
		g.put(at(young))
		for range records {
			old++
			g.put(at(old))
		}
		b := r.Poll()
		require.Len(t, b.Records, records)
		require.Equal(t, old, b.Records[records-1].Time)
		return b.Records
	}
	next(1000) // the memory grows until it suffices
	next(1000)
	r.Poll()
	for _, s := range [][]Record{r.state.main.records, r.state.main.spare} {
		for _, rec := range s[len(s):cap(s)] {
			assert.Zero(t, rec, "it would keep a stack in memory")
		}
	}
	memory := make(map[*Record]bool)
	for range 10 {
		memory[&next(900)[0]] = true
	}
	assert.LessOrEqual(t, len(memory), 2)
	most := next(maxKept + 1)
	next(900)
	assert.Equal(t, old-900, most[maxKept].Time, "this memory is not used again")
	assert.Less(t, cap(r.state.main.records)+cap(r.state.main.spare), maxKept)
	r.opts.Window = 0
	held := r.Poll().Records
	assert.Len(t, held, 2+10+2)
	assert.IsNonDecreasing(t, times(held))
}
