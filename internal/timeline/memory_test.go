// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestMemoryIsTheHeaps verifies the counted memory against the growth of Go's heap.
func TestMemoryIsTheHeaps(t *testing.T) {
	const first = 0xffffffffc0000000
	var kept []any // until the end: names are freed late, so all are different
	for _, c := range []struct {
		name string
		fill func(h *Builder)
	}{
		{"the core kernel", func(h *Builder) {
			const n = 50_000
			var b symtab.Builder
			for i := range uint64(n) {
				b.Add(0x1000+64*i, 'T', fmt.Appendf(nil, "function_%d_of_the_kernel", i*7919))
			}
			text, err := b.Build(symtab.TextInfo{Start: 0x1000, End: 0x1000 + 64*n})
			require.NoError(t, err)
			h.Load(NewImage(OriginKernel, KernelName, text, Always))
		}},
		{"functions", func(h *Builder) {
			for i := range uint64(50_000) {
				h.Load(bpf(fmt.Sprintf("bpf_prog_%016x_one", i), first+64*i, 64, int64(i)))
			}
		}},
		{"programs of two functions", func(h *Builder) {
			for i := range uint64(20_000) {
				p := &Program{ID: uint32(i), Functions: 2, Type: "xdp", Tag: fmt.Sprintf("%016x", i)}
				for k := range uint64(2) {
					h.Load(bpf(fmt.Sprintf("bpf_prog_%016x_%d", i, k), first+128*i+64*k, 64, int64(i)).WithProgram(p, nil))
				}
			}
		}},
		{"programs that are loaded again", func(h *Builder) {
			for i := range uint64(50_000) {
				place := i % 5_000
				m := bpf(fmt.Sprintf("bpf_prog_%016x_again", place), first+1024*place, 960, int64(i)*ms)
				h.Load(m)
				h.Unload(m, int64(i+1)*ms)
			}
		}},
		{"programs that cover many others", func(h *Builder) { loadOverlapping(h, 12_000) }},
		{"functions whose file IDs were asked for", func(h *Builder) {
			load := func(from, to uint64) {
				for i := from; i < to; i++ {
					h.Load(bpf(fmt.Sprintf("bpf_prog_%016x_known", i), first+64*i, 64, int64(i)))
				}
			}
			load(0, 30_000)
			assert.False(t, NewSnapshot(h.Table()).HasFunctionID(noFileID, true))
			load(30_000, 40_000)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := heap()
			h := NewBuilder(remember)
			c.fill(h)
			table := h.Table()
			grown := heap() - before
			counted := int64(0)
			for _, count := range table.Count() {
				counted += count.Memory
			}
			assert.InEpsilon(t, grown, counted, 0.1)
			kept = append(kept, h, table)
		})
	}
	runtime.KeepAlive(kept)
}

// loadOverlapping loads and unloads programs of 4,000 instructions, each among the addresses of hundreds of earlier ones.
func loadOverlapping(h *Builder, programs int) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range int64(programs) {
		m := bpf(fmt.Sprintf("bpf_prog_%016x_wide", i), 0xffffffffc0000000+64*r.Uint64N(1<<14), 18_000+r.Uint32N(4_000), i*ms)
		h.Load(m)
		h.Unload(m, i*ms+ms/2)
	}
}

// heap returns the bytes on Go's heap once it stays the same: names are freed some time after their images.
func heap() int64 {
	last := int64(0)
	for same := 0; same < 5; same++ {
		time.Sleep(time.Millisecond)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if is := int64(m.HeapAlloc); max(is-last, last-is) > 1<<12 {
			last, same = is, 0
		}
	}
	return last
}

// TestAnUnloadTakesLittle verifies that the history takes at most 500 bytes for an unloaded image, however long it is
// and however many others have had its addresses.
func TestAnUnloadTakesLittle(t *testing.T) {
	const limit = 500
	t.Run("many overlapping programs", func(t *testing.T) {
		const n = 12_000
		before := heap()
		h := NewBuilder(remember)
		loadOverlapping(h, n)
		assert.Less(t, heap()-before, int64(n*limit))
		runtime.KeepAlive(h)
	})
	t.Run("programs over hundreds of old ones", func(t *testing.T) {
		const n, start = 4_000, 0xffffffffc0000000
		h := NewBuilder(remember)
		for i := range int64(n) {
			m := bpf("small", start+64*uint64(i), 64, i*ms)
			h.Load(m)
			h.Unload(m, i*ms+ms/2)
		}
		before := heap()
		for i := range int64(n) {
			m := bpf("long", start+64*uint64(i), 28_000, (n+i)*ms)
			h.Load(m)
			h.Unload(m, (n+i)*ms+ms/2)
		}
		assert.Less(t, heap()-before, int64(n*limit))
		runtime.KeepAlive(h)
	})
}
