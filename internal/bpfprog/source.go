package bpfprog

import (
	"context"
	"fmt"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// Options say what a Source keeps known, and from where it reads.
type Options struct {
	Procfs, Sysfs string // where /proc and /sys are mounted

	SourceLines bool // of programs that carry BTF
	Trampolines bool // also trampolines and out-of-line pages
	History     symtab.History
}

// A Source publishes the functions of BPF programs, and what goes with them.
type Source struct {
	opts     Options
	record   func() (Recorder, error)
	programs Programs
	stats    symcache.Stats
	follower *follower // what the runs before have found out, nil before the first

	recordAgain time.Duration // time between two tries to have records, when they are refused
}

// A Recorder tells what comes and goes; a perfring.Reader of Symbols.
type Recorder interface {
	// Read returns no records only if there were none to return at the deadline.
	Read(ctx context.Context, deadline time.Time) ([]perfring.Record, error)
	Close() error
}

// Programs tells what is there; a bpf.Reader.
type Programs interface {
	Next(after uint32) (id uint32, err error)
	Program(id uint32, want bpf.Want) (*bpf.Program, error)
	BTF(id uint32) (*bpf.BTF, error)
}

// NewSource returns a source of the running kernel's functions.
func NewSource(opts Options) *Source {
	return NewSourceFrom(opts, func() (Recorder, error) {
		return perfring.Open(perfring.SymbolOptions(opts.Sysfs))
	}, new(bpf.Reader))
}

// NewSourceFrom returns a source of what a recorder and programs tell. record starts to
// record; what it returns is closed when Run ends.
func NewSourceFrom(opts Options, record func() (Recorder, error), programs Programs) *Source {
	return &Source{opts: opts, record: record, programs: programs, recordAgain: time.Minute}
}

// Name returns "bpf".
func (*Source) Name() string { return "bpf" }

// Stats returns the source's counts of its work. What it counts as symbols are the
// numbers, types and lines of programs.
func (s *Source) Stats() *symcache.Stats { return &s.stats }

// Run publishes the functions that are there, and anew after every change. What
// privileges are missing is said with the tables (section 8 of the contract); with
// neither records nor a list of programs, it returns the errors of both. Its other
// errors are those of reading records. A later run goes on with what is known, as after
// lost records; one goroutine at a time may call it.
func (s *Source) Run(ctx context.Context, publish func(t *symtab.Table, degraded error)) error {
	if s.follower == nil {
		s.follower = newFollower(s)
	} else {
		s.follower.resume()
	}
	f := s.follower
	records, err := s.record() // before anything is listed, or what is loaded in between is missed
	if err != nil {
		f.recordErr = err
		return s.poll(ctx, f, publish)
	}
	return f.follow(ctx, records, publish)
}

// follow lists what is there and applies records to it, which it closes at the end.
func (f *follower) follow(ctx context.Context, records Recorder, publish func(*symtab.Table, error)) error {
	defer records.Close() //nolint:errcheck // nothing was written
	f.resync(ctx)
	if f.doubts.looked.IsZero() {
		f.othersErr = f.readOthers(ctx)
	}
	publish(f.table(), f.degraded())
	for {
		deadline, began := f.nextLook(time.Now().Add(expireInterval)), f.now()
		wait := time.Until(deadline)
		burst, err := records.Read(ctx, deadline)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("following BPF programs: %w", err)
		}
		if len(burst) == 0 {
			began += int64(max(0, wait)) // then the rings were read once more
		}
		changed := f.apply(burst)
		f.resyncs.looked(began, f.now())
		if f.expire() || changed {
			publish(f.table(), f.degraded())
		}
		if f.complete(ctx) {
			publish(f.table(), f.degraded())
		}
	}
}

// expireInterval is the time between two looks at what to forget, when nothing else
// happens.
const expireInterval = 10 * time.Second
