// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// loadProgram loads a small program into the kernel.
func loadProgram(n int32) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "kernelsym_bench", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, n), asm.Return()},
	})
}

// silent is an event source without events. It ends the run of the source.
type silent struct{ stop func() }

func (s silent) Wait(ctx context.Context, _ time.Time) error {
	s.stop()
	return ctx.Err()
}

func (silent) Poll() perfring.Batch { return perfring.Batch{Certain: perfring.Boottime.Now()} }

func (silent) RefreshCPUs(bool) error { return nil }

func (silent) MissesCPU() bool { return false }

func (silent) Close() error { return nil }

// benchListing measures how a source lists a thousand programs of the kernel, compared with the
// system calls for it.
func benchListing(rounds int) error {
	const programs = 1000
	for i := range programs {
		p, err := loadProgram(int32(i))
		if err != nil {
			return err
		}
		defer func() { _ = p.Close() }()
	}
	// The end of /proc/kallsyms is not measured. A source reads it if it lists other programs that
	// may have no names.
	procfs, err := os.MkdirTemp("", "kernelsym-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(procfs) }()
	if err := os.WriteFile(filepath.Join(procfs, "kallsyms"), nil, 0o600); err != nil {
		return err
	}
	var errs []error
	list := func() {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		s := bpfprog.NewSourceFrom(bpfprog.Options{Procfs: procfs, SourceLines: true},
			func() (bpfprog.EventSource, error) { return silent{stop}, nil }, new(bpf.Reader))
		errs = append(errs, s.Run(ctx, func(u symcache.Update) {
			errs = append(errs, u.Degraded)
			if n := u.Table.Count()[timeline.OriginBPF].Symbols; n < programs {
				errs = append(errs, fmt.Errorf("%d of %d programs are listed", n, programs))
			}
		}))
	}
	var reader bpf.Reader
	floor := func() {
		_, err := reader.Floor(bpf.WantFunctions | bpf.WantLines)
		errs = append(errs, err)
	}
	t := medians(rounds, cpu, task{run: list}, task{run: floor})
	report("bpf_list_vs_syscalls", ratio(t[0], t[1]))
	return errors.Join(errs...)
}

// benchDelay measures how long a program has no name yet after it is loaded, while messages arrive
// all the time.
func benchDelay() error {
	cache := symcache.Start(zap.NewNop(), nil, bpfprog.NewSource(bpfprog.Options{
		Procfs: "/proc", Sysfs: "/sys", SourceLines: true, History: timeline.Limits{TTL: time.Minute, MaxEntries: 1000},
	}))
	defer cache.Stop()
	for len(cache.Snapshot().Tables()) == 0 {
		time.Sleep(time.Millisecond)
	}
	var reader bpf.Reader
	var delays []time.Duration
	for i := range 1000 {
		p, err := loadProgram(int32(i))
		loaded := wall()
		if err != nil {
			return err
		}
		id, err := idOf(p)
		if err != nil {
			return err
		}
		info, err := reader.Program(id, 0)
		if err != nil {
			return err
		}
		for !isNamed(cache.Fresh(), info) {
			if wall()-loaded > time.Minute {
				return errors.New("a loaded program gets no name")
			}
			time.Sleep(10 * time.Microsecond)
		}
		delays = append(delays, wall()-loaded)
		if err := p.Close(); err != nil {
			return err
		}
	}
	report("bpf_event_delay_ms", float64(median(delays).Microseconds())/1000)
	report("bpf_event_delay_max_ms", float64(slices.Max(delays).Microseconds())/1000)
	return nil
}

func idOf(p *ebpf.Program) (uint32, error) {
	info, err := p.Info()
	if err != nil {
		return 0, err
	}
	id, _ := info.ID()
	return uint32(id), nil
}

// isNamed reports whether the function at a program's address belongs to the program.
func isNamed(s *timeline.Snapshot, p *bpf.Program) bool {
	hit, _ := s.At(p.Functions[0].Addr, timeline.Present)
	m := hit.Image
	return m != nil && m.Program != nil && m.Program.ID == p.ID
}
