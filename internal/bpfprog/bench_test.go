// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

type benchRec struct {
	burst []perfring.Record
	at    int64
}

func (b *benchRec) Wait(ctx context.Context, _ time.Time) error { return ctx.Err() }
func (b *benchRec) Poll() perfring.Batch {
	r := b.burst
	b.burst = nil
	at := now()
	return perfring.Batch{Records: r, At: at, Certain: at}
}
func (*benchRec) RefreshCPUs(bool) error { return nil }
func (*benchRec) MissesCPU() bool        { return false }
func (*benchRec) Close() error           { return nil }

// BenchmarkEvent measures what it costs to load or unload one program, from its records
// to the table.
func BenchmarkEvent(b *testing.B) {
	for _, n := range []int{1000, 50_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			fakes := newFakes()
			rec := &benchRec{at: now()}
			s := NewSourceFrom(Options{History: timeline.Limits{TTL: time.Hour, MaxEntries: 1 << 16}},
				func() (EventSource, error) { return rec, nil }, fakes)
			s.state.publish = func(symcache.Update) {}
			s.start(rec, nil)
			_, _ = s.round(b.Context())
			progs := make([]*bpf.Program, n)
			for i := range progs {
				rec.at++
				progs[i] = prog(uint32(i+1), i%100, 0, 0xffffffffc0000000+uint64(i)*0x400)
				fakes.loaded[uint32(i+1)] = progs[i]
				rec.burst = append(rec.burst, loads(rec.at, progs[i])...)
			}
			for first := true; first || len(s.state.follower.toQuery) > 0; first = false {
				_, _ = s.round(b.Context())
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				b.StopTimer()
				p := progs[(i/2*7919)%n]
				rec.at = now()
				if i%2 == 0 {
					delete(fakes.loaded, p.ID)
					rec.burst = unloads(rec.at-1, p)
				} else {
					fakes.loaded[p.ID] = p
					rec.burst = loads(rec.at-1, p)
				}
				b.StartTimer()
				_, _ = s.round(b.Context())
			}
		})
	}
}
