// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestMemoryIsThatOfTheImages verifies the counted memory, after changes of all kinds, against the
// sum of all loaded and remembered images.
func TestMemoryIsThatOfTheImages(t *testing.T) {
	for _, limits := range []Limits{{TTL: 200 * time.Millisecond, MaxEntries: 20}, {}} {
		r := rand.New(rand.NewPCG(5, uint64(limits.MaxEntries)))
		record := NewHistory(limits)
		var lines symtab.LinesBuilder
		for step := range 3000 {
			now := int64(step) * ms
			start := 0x1000 + 64*r.Uint64N(64)
			switch there := record.At(start); {
			case there == nil || r.IntN(3) == 0:
				origin := []Origin{OriginBPF, OriginTrampoline, OriginOOL}[r.IntN(3)]
				record.Load(NewFunction(origin, fmt.Sprint("f", step), start, 64*(1+r.Uint32N(8)), now))
			case r.IntN(2) == 0:
				lines.Add(r.Uint32(), r.Uint32(), "a.c")
				record.Replace(there, there.WithProgram(&Program{ID: 1, Since: now + r.Int64N(9)*ms}, lines.Build()))
				record.Replace(there, there) // no longer loaded
			default:
				record.Unload(there, now)
				record.Unload(there, now) // no longer loaded
			}
			if r.IntN(9) == 0 {
				record.TruncateLifetimes(Interval{From: now - 5*ms, To: now})
			}
			record.Evict(now)
			require.Equal(t, walked(record), memory(record.Table()), "step %d", step)
		}
	}
}

// memory returns the number of bytes of each origin.
func memory(t *Table) (n [NumOrigins]int64) {
	for origin, count := range t.Count() {
		n[origin] = count.Memory
	}
	return n
}

func walked(record *History) (sum [NumOrigins]int64) {
	seen := make(map[*Image]bool)
	count := func(f *Image) {
		if f != nil && !seen[f] {
			seen[f] = true
			sum[f.Origin] += f.memory()
		}
	}
	record.tree.root.each(0, math.MaxUint64, func(s *segment) bool {
		count(s.loaded)
		for _, f := range s.past {
			count(f)
		}
		return true
	})
	return sum
}

// TestMemoryIsTheHeaps verifies the counted memory against the growth of Go's heap. A slice that is
// not counted would exceed the tolerance.
func TestMemoryIsTheHeaps(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 50_000
	before := heap()
	var b symtab.Builder
	for i := range uint64(n) {
		b.Add(0x1000+64*i, 'T', fmt.Appendf(nil, "function_%d_of_the_kernel", i*7919))
	}
	m, err := b.Build(symtab.TextInfo{Start: 0x1000, End: 0x1000 + 64*n})
	require.NoError(t, err)
	core := NewTable(NewImage(OriginKernel, KernelName, m, Always))
	assert.InEpsilon(t, heap()-before, memory(core)[OriginKernel], 0.3)

	before = heap()
	record := NewHistory(remember)
	for i := range uint64(n) {
		record.Load(bpf(fmt.Sprintf("bpf_prog_%016x_x", i), 0x1000+64*i, 64, int64(i)))
	}
	functions := record.Table()
	assert.InEpsilon(t, heap()-before, memory(functions)[OriginBPF], 0.3)
	runtime.KeepAlive(core)
	runtime.KeepAlive(record)
}
