// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// synthetic is a kernel with BPF programs. It loads and unloads them as the script says, and
// announces this in records.
type synthetic struct {
	programs map[uint32]*bpf.Program
	btf      *btf.BTF
	lines    int // of each program

	at      int64
	script  func() []perfring.Record // returns the next burst; nil when it is over
	pending []perfring.Record
	source  *bpfprog.Source
	stop    func()
	last    *timeline.Table
}

const (
	firstAddress = 0xffffffffc0000000
	programSpace = 0x400 // bytes for each
	programLen   = 0x3c0
)

func newSynthetic(lines int) *synthetic {
	types, err := btf.Parse(someBTF())
	if err != nil {
		panic(err) // the input is constant
	}
	return &synthetic{programs: make(map[uint32]*bpf.Program), btf: types, lines: lines, at: perfring.Boottime.Now()}
}

// run lets a source follow the script, and returns the last table.
func (s *synthetic) run(script func() []perfring.Record) *timeline.Table {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s.script, s.stop = script, stop
	s.source = bpfprog.NewSourceFrom(
		bpfprog.Options{SourceLines: s.lines > 0, History: timeline.Limits{TTL: time.Hour, MaxEntries: 1 << 16}},
		func() (bpfprog.EventSource, error) { return s, nil }, s)
	if err := s.source.Run(ctx, func(u symcache.Update) { s.last = u.Table }); err != nil {
		panic(err) // nothing here fails
	}
	return s.last
}

// Wait gets the next burst, unless the source still has programs to ask for. The last table
// describes a time after everything has happened.
func (s *synthetic) Wait(ctx context.Context, deadline time.Time) error {
	if !deadline.After(time.Now()) {
		return nil
	}
	if s.pending = s.script(); s.pending == nil {
		time.Sleep(10 * time.Millisecond)
		s.source.Refresh()
		s.stop()
	}
	return ctx.Err()
}

func (s *synthetic) Poll() perfring.Batch {
	at := perfring.Boottime.Now()
	b := perfring.Batch{Records: s.pending, At: at, Certain: at}
	s.pending = nil
	return b
}

func (*synthetic) RefreshCPUs(bool) error { return nil }

func (*synthetic) MissesCPU() bool { return false }

func (*synthetic) Close() error { return nil }

// Next finds no programs: records announce all of them.
func (*synthetic) Next(uint32) (uint32, error) { return 0, io.EOF }

func (s *synthetic) Program(id uint32, _ bpf.Want) (*bpf.Program, error) {
	if p := s.programs[id]; p != nil {
		return p, nil
	}
	return nil, bpf.ErrGone
}

func (s *synthetic) BTF(uint32) (*btf.BTF, error) { return s.btf, nil }

// ModuleBTF returns bpf.ErrGone.
func (*synthetic) ModuleBTF(uint32, *btf.BTF) (string, *btf.BTF, error) { return "", nil, bpf.ErrGone }

// load loads program i and returns its records. Programs whose numbers are equal modulo different
// have the same tag.
func (s *synthetic) load(i int) []perfring.Record {
	const different = 512
	s.tick()
	tag := [8]byte{byte(i % different >> 8), byte(i % different)}
	addr := firstAddress + uint64(i)*programSpace
	p := &bpf.Program{
		ID: uint32(i + 1), Type: 3, Tag: tag, Name: "cls_entry", LoadTime: s.at, BTF: 1,
		Functions: []bpf.Function{{Addr: addr, Len: programLen, Tag: tag}},
	}
	for l := range s.lines {
		p.Lines = append(p.Lines, bpf.Line{Addr: addr + uint64(l*programLen/s.lines), File: 1, LineCol: uint32(l) << 10})
	}
	s.programs[p.ID] = p
	return s.records(p, perfring.ProgramLoad)
}

// tick advances the time to the present, and at least by 1 ns.
func (s *synthetic) tick() { s.at = max(s.at+1, perfring.Boottime.Now()) }

func (s *synthetic) unload(i int) []perfring.Record {
	s.tick()
	p := s.programs[uint32(i+1)]
	delete(s.programs, p.ID)
	return s.records(p, perfring.ProgramUnload)
}

func (s *synthetic) records(p *bpf.Program, event perfring.ProgramEvent) []perfring.Record {
	f := p.Functions[0]
	return []perfring.Record{{
		Type: perfring.TypeKsymbol, Time: s.at, TID: 1, Symbol: &perfring.Symbol{
			Addr: f.Addr, Len: f.Len, Kind: perfring.KsymBPF, Unregister: event == perfring.ProgramUnload,
			Name: fmt.Sprintf("bpf_prog_%x_%s", p.Tag, p.Name),
		},
	}, {
		Type: perfring.TypeBPFEvent, Time: s.at, TID: 1, Program: &perfring.Program{Event: event, ID: p.ID, Tag: p.Tag},
	}}
}

// loadAll loads n programs and returns their records.
func (s *synthetic) loadAll(n int) (burst []perfring.Record) {
	for i := range n {
		burst = append(burst, s.load(i)...)
	}
	return burst
}

// cost has the times and the allocated bytes of the steps of a script.
type cost struct {
	times []time.Duration
	bytes []uint64
}

// steps returns what each of n bursts costs while that many programs are loaded. Making a burst
// does not count. The bytes are measured in as many further bursts, because reading the allocator's
// numbers empties its caches.
func steps(programs, n int, burst func(s *synthetic, step int) []perfring.Record) (c cost) {
	s := newSynthetic(0)
	var began time.Duration
	var before, after runtime.MemStats
	step := -1
	s.run(func() []perfring.Record {
		if step++; step == 0 {
			return s.loadAll(programs)
		}
		ended := wall()
		switch {
		case step > n+1:
			runtime.ReadMemStats(&after)
			c.bytes = append(c.bytes, after.TotalAlloc-before.TotalAlloc)
		case step > 1:
			c.times = append(c.times, ended-began)
		}
		if step > 2*n {
			return nil
		}
		records := burst(s, step)
		if step > n {
			runtime.ReadMemStats(&before)
		}
		began = wall()
		return records
	})
	return c
}

// event returns bursts of one program each, which is unloaded and loaded in turn.
func event(programs int) func(*synthetic, int) []perfring.Record {
	r := rand.New(rand.NewPCG(5, 6))
	last := 0
	return func(s *synthetic, step int) []perfring.Record {
		if step%2 == 1 {
			last = r.IntN(programs)
			return s.unload(last)
		}
		return s.load(last)
	}
}

// benchFollowing measures the cost of an event while many programs are loaded.
func benchFollowing() {
	const many, few, events = 50_000, 1_000, 2_000
	large, small := steps(many, events, event(many)), steps(few, events, event(few))
	report("node50k_event_us", float64(median(large.times).Nanoseconds())/1000)
	report("bpf_event_bytes", float64(mean(large.bytes)))
	report("bpf_event_1k_us", float64(median(small.times).Nanoseconds())/1000)
	report("bpf_event_50k_vs_1k", ratio(median(large.times), median(small.times)))

	report("bpf_message_after_1k_events_us", float64(median(messages(few, 1_000, 9)).Nanoseconds())/1000)

	const burst = 1_000
	bursts := steps(many, 9, func(s *synthetic, step int) (records []perfring.Record) {
		for i := range burst {
			records = append(records, s.load(many+step*burst+i)...)
		}
		return records
	})
	report("bpf_burst_50k_ms_per_1k", float64(median(bursts.times).Microseconds())/1000)
}

// messages returns how long each of n messages waits for the source to publish. The given number of
// events, already applied, precedes each message.
func messages(programs, events, n int) (times []time.Duration) {
	s := newSynthetic(0)
	burst := event(programs)
	step := -1
	s.run(func() []perfring.Record {
		if step++; step == 0 {
			return s.loadAll(programs)
		}
		if step%events == 0 {
			began := wall()
			s.source.Refresh()
			times = append(times, wall()-began)
		}
		if len(times) == n {
			return nil
		}
		return burst(s, step)
	})
	return times
}

func mean(all []uint64) (mean uint64) {
	for _, n := range all {
		mean += n
	}
	return mean / uint64(len(all))
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
