package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// loadProgram loads a small program into the kernel.
func loadProgram(n int32) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "kernelsym_bench", Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, n), asm.Return()},
	})
}

// silent is a recorder of nothing: it ends the source.
type silent struct{ stop func() }

func (s silent) Read(ctx context.Context, _ time.Time) ([]perfring.Record, error) {
	s.stop()
	return nil, ctx.Err()
}

func (silent) Close() error { return nil }

// benchListing measures how a source lists a thousand programs of the kernel, against
// the system calls that takes.
func benchListing(rounds int) error {
	const programs = 1000
	for i := range programs {
		p, err := loadProgram(int32(i))
		if err != nil {
			return err
		}
		defer func() { _ = p.Close() }()
	}
	var errs []error
	list := func() {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		s := bpfprog.NewSourceFrom(bpfprog.Options{SourceLines: true},
			func() (bpfprog.Recorder, error) { return silent{stop}, nil }, new(bpf.Reader))
		errs = append(errs, s.Run(ctx, func(t *symtab.Table, degraded error) {
			errs = append(errs, degraded)
			if n := t.Symbols()[symtab.OriginBPF]; n < programs {
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

// benchDelay measures for how long a program that was loaded has no name yet.
func benchDelay() error {
	cache := symcache.Start(zap.NewNop(), nil, bpfprog.NewSource(bpfprog.Options{
		Procfs: "/proc", Sysfs: "/sys", SourceLines: true, History: symtab.History{TTL: time.Minute, MaxEntries: 1000},
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
		for !isNamed(cache.Snapshot(), info) {
			if wall()-loaded > time.Minute {
				return errors.New("a program that was loaded is not seen")
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

// isNamed reports whether the function at a program's address is the program's.
func isNamed(s *symtab.Snapshot, p *bpf.Program) bool {
	sym, ok := s.Lookup(p.Functions[0].Addr, symtab.Now)
	return ok && sym.Function.Program != nil && sym.Function.Program.ID == p.ID
}
