// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"slices"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// someAddresses returns random addresses inside symbols. Each symbol is equally likely.
func someAddresses(r *rand.Rand, core *timeline.Image, n int) []uint64 {
	addrs := make([]uint64, n)
	for i := range addrs {
		s := core.Text.Symbol(r.IntN(core.Len()))
		addrs[i] = s.Start + r.Uint64N(s.End()-s.Start)
	}
	return addrs
}

// benchLookup measures the lookup of the symbol at an address, compared with a search for the same
// address among the starts alone.
func benchLookup(core *timeline.Image, rounds int) {
	snapshot := timeline.NewSnapshot(timeline.NewTable(core))
	starts := make([]uint64, core.Len())
	for i := range starts {
		starts[i] = core.Text.Symbol(i).Start
	}
	r := rand.New(rand.NewPCG(1, 2))
	uniform := someAddresses(r, core, 1<<17)

	hot := someAddresses(r, core, 2000)
	zipf := rand.NewZipf(r, 1.1, 1, uint64(len(hot)-1))
	skewed := make([]uint64, 1<<17)
	for i := range skewed {
		skewed[i] = hot[zipf.Uint64()]
	}

	for name, addrs := range map[string][]uint64{"lookup": uniform, "lookup_hot": skewed} {
		found := uint64(0)
		look := func() {
			for _, addr := range addrs {
				hit, _ := snapshot.At(addr, timeline.Always)
				found += hit.Symbol.Start
			}
		}
		search := func() {
			for _, addr := range addrs {
				i, _ := slices.BinarySearch(starts, addr)
				found += uint64(i)
			}
		}
		withName := func() {
			for _, addr := range addrs {
				hit, _ := snapshot.At(addr, timeline.Always)
				found += uint64(len(hit.Name().Name))
			}
		}
		t := medians(rounds, wall, task{run: look}, task{run: search}, task{run: withName})
		report(name+"_vs_binary_search", ratio(t[0], t[1]))
		report(name+"_with_name_vs_binary_search", ratio(t[2], t[1]))
	}
}
