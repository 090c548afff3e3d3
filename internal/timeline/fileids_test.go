// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// noFileID is the file ID of no image.
var noFileID = strings.Repeat("0", 32)

// TestFileIDsOfEachTable changes histories at random, and verifies that each table knows the file IDs of its own images and
// no others, in whichever order tables are asked.
func TestFileIDsOfEachTable(t *testing.T) {
	asked, known, dropped := 0, 0, 0
	for seed := range uint64(rounds(15)) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := NewBuilder(Limits{TTL: remember.TTL, MaxEntries: 1 + r.IntN(40)})
		ids := map[string]bool{noFileID: true, strings.ToUpper(noFileID[:31] + "a"): true, "": true, "x": true}
		var tables []*Table
		for now := int64(1); now < 300; now++ {
			first := h.ids.first
			wasActive := h.ids.counts != nil
			changeAtRandom(h, r, now*ms)
			if wasActive && h.ids.first > first {
				dropped++
			}
			for m := range h.images() {
				anywhere, here := m.functionFileIDs()
				for _, id := range append(anywhere, here...) {
					ids[id] = true
				}
			}
			if r.IntN(4) > 0 {
				continue
			}
			tables = append(tables, h.Table())
			of := tables[len(tables)-1]
			if r.IntN(3) == 0 {
				of = tables[r.IntN(len(tables))]
			}
			anywhere, here := fileIDsOf(of)
			for id := range ids {
				require.Equal(t, anywhere[id], of.hasFunctionID(id, false), "seed %d, %d ms, %s", seed, now, id)
				require.Equal(t, anywhere[id] || here[id], of.hasFunctionID(id, true), "seed %d, %d ms, %s", seed, now, id)
			}
			asked, known = asked+1, known+len(here)
		}
	}
	assert.Greater(t, known, 3*asked)
	assert.Greater(t, dropped, asked/100)
}

// images yields the images of the history.
func (h *Builder) images() func(yield func(*Image) bool) {
	t := h.Table()
	return t.images.all()
}

// fileIDsOf returns the file IDs of the functions of a table.
func fileIDsOf(t *Table) (anywhere, here map[string]bool) {
	anywhere, here = make(map[string]bool), make(map[string]bool)
	for m := range t.images.all() {
		if !m.IsFunction() || m.Name() == "" {
			continue
		}
		a, b := m.functionFileIDs()
		for i := range a {
			anywhere[a[i]], here[b[i]] = true, true
		}
	}
	return anywhere, here
}

// changeAtRandom makes a change to a history: among other images, functions with one name are loaded at several addresses.
func changeAtRandom(h *Builder, r *rand.Rand, now int64) {
	loaded := h.Loaded()
	switch kind := r.IntN(10); {
	case kind < 5:
		m := bpf([]string{"a", "b", "c", ""}[r.IntN(4)], 0x1000+0x40*uint64(r.IntN(40)), 0x40+0x40*uint32(r.IntN(2)), now)
		if r.IntN(6) == 0 {
			m = trampoline("trampoline", m.Start, now)
		}
		h.Load(m)
	case len(loaded) == 0:
	case kind < 8:
		h.Unload(loaded[r.IntN(len(loaded))], now)
	case kind == 8:
		m := loaded[r.IntN(len(loaded))]
		lines := new(symtab.Lines)
		h.Replace(m, m.WithName("named later", now).WithProgram(&Program{ID: 1, Since: now}, lines))
	case r.IntN(2) == 0:
		h.Evict(now + int64(h.limits.TTL) - 20*ms)
	default:
		h.TruncateLifetimes(Interval{From: now - 10*ms, To: now})
	}
}

// TestContract_6_1_UnknownFileID verifies that messages with an unknown file ID do not cost as much as the history of
// functions while functions come and go.
func TestContract_6_1_UnknownFileID(t *testing.T) {
	const n = 5_000
	h := NewBuilder(remember)
	change := func(i int64) {
		m := bpf(fmt.Sprintf("bpf_prog_%016x_f", i), 0x1000+256*uint64(i%500), 200, i*ms)
		h.Load(m)
		h.Unload(m, i*ms+ms/2)
	}
	ask := func() { assert.False(t, NewSnapshot(h.Table()).HasFunctionID(noFileID, true)) }
	for i := range int64(n) {
		change(i)
	}
	ask()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range int64(20) {
		change(n + i)
		ask()
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20*n*10), "10 bytes for each function in the history")
}

// TestContract_6_1_UnknownFileIDOfOldTables verifies that the frames of messages of one time do not cost more because code has
// been loaded since.
func TestContract_6_1_UnknownFileIDOfOldTables(t *testing.T) {
	const n, frames = 500, 100
	h := NewBuilder(remember)
	load := func(i uint64) { h.Load(bpf(fmt.Sprintf("bpf_prog_%016x_f", i), 0x1000+256*i, 200, ms)) }
	for i := range uint64(n) {
		load(i)
	}
	old := h.Table()
	load(n) // while nobody has asked for a file ID
	tables := []*Table{old, h.Table()}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range frames {
		for _, table := range tables {
			require.False(t, table.hasFunctionID(noFileID, true))
		}
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(tables)*n*2000), "2 kB for each function of each table")
	_, here := fileIDsOf(old)
	for id := range here {
		require.True(t, old.hasFunctionID(id, true))
	}
}

// TestFileIDsAtOnce asks tables while the history changes.
func TestFileIDsAtOnce(t *testing.T) {
	h := NewBuilder(Limits{TTL: remember.TTL, MaxEntries: 20})
	r := rand.New(rand.NewPCG(1, 1))
	var asking sync.WaitGroup
	for now := range int64(300) {
		changeAtRandom(h, r, (now+1)*ms)
		table := h.Table()
		asking.Go(func() {
			_, here := fileIDsOf(table)
			for id := range here {
				assert.True(t, table.hasFunctionID(id, true))
			}
			assert.False(t, table.hasFunctionID(noFileID, true))
		})
	}
	asking.Wait()
}
