// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// oldPrograms are programs of about 4,000 instructions that were loaded and unloaded at random places of 1 MB, each for
// a millisecond. So each had the addresses of hundreds of others.
func oldPrograms(n int) *timeline.Builder {
	r := rand.New(rand.NewPCG(9, 10))
	h := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: 1 << 16})
	for i := range int64(n) {
		start := firstAddress + 64*r.Uint64N(1<<14)
		m := timeline.NewFunction(timeline.OriginBPF, fmt.Sprintf("bpf_prog_%016x_old", i), start, 18_000+r.Uint32N(4_000), i*oldLife)
		h.Load(m)
		h.Unload(m, (i+1)*oldLife)
	}
	h.SetCertain(int64(n) * oldLife)
	return h
}

const oldLife = int64(time.Millisecond)

// benchUnloads measures the history of long programs.
func benchUnloads(rounds int) {
	const programs = 12_000
	var h *timeline.Builder
	held, _ := memory(func() any {
		h = oldPrograms(programs)
		return h
	})
	report("history_overlapping_bytes_per_entry", held/programs)

	r := rand.New(rand.NewPCG(11, 12))
	now, found := programs*oldLife, uint64(0)
	var loads, unloads []time.Duration
	for range 1_000 {
		now += oldLife
		m := timeline.NewFunction(timeline.OriginBPF, "bpf_prog_0123456789abcdef_new", firstAddress+64*r.Uint64N(1<<14), 28_000, now)
		began := wall()
		h.Load(m)
		loaded := wall()
		h.Table() // shares the nodes, so that the next change copies them
		loads = append(loads, loaded-began)
		began = wall()
		h.Unload(m, now+oldLife/2)
		unloads = append(unloads, wall()-began)
		h.Table()
	}
	h.SetCertain(now + oldLife)
	report("history_load_us", float64(median(loads).Nanoseconds())/1000)
	report("history_unload_us", float64(median(unloads).Nanoseconds())/1000)

	s := timeline.NewSnapshot(h.Table())
	look := func(at func() timeline.Interval) func() {
		return repeat(1<<15, func() {
			hit, _ := s.At(firstAddress+r.Uint64N(1<<20), at())
			found += hit.Symbol.Start
		})
	}
	t := medians(rounds, wall,
		task{run: look(func() timeline.Interval { return timeline.Instant(r.Int64N(now)) })},
		task{run: look(func() timeline.Interval { return timeline.Always })})
	report("history_past_lookup_ns", float64(t[0].Nanoseconds())/timesARound/(1<<15))
	report("history_always_lookup_ns", float64(t[1].Nanoseconds())/timesARound/(1<<15))
	runtime.KeepAlive(found)
}
