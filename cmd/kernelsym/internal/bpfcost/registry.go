// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

// A Registry keeps the kernel's descriptions of programs, including programs that were unloaded.
// Its methods are safe for concurrent use.
type Registry struct {
	processes procname.Names
	counting  io.Closer // nil if the kernel does not count runs for it
	stop      func()    // ends watching

	mu        sync.Mutex // held during queries to the kernel
	programs  Programs
	known     map[uint32]Details
	unwatched error // why the loaders of programs are unknown
}

// Programs lists and describes the loaded programs. A bpf.Reader implements it.
type Programs interface {
	Next(after uint32) (id uint32, err error)
	Program(id uint32, want bpf.Want) (*bpf.Program, error)
}

// Details describe a program, except for its samples.
type Details struct {
	Name     string // cut off after 15 bytes, as the kernel keeps it
	Type     string // empty if unknown
	Tag      string // 16 hex digits
	Creator  *uint32
	LoadedBy *procname.Process // nil if no record named it
	Gone     bool              // it was unloaded
}

// A Reading has the kernel's counts at a time, for each program that was loaded then.
type Reading struct {
	At    time.Time
	Stats map[uint32]bpf.Stats
}

// maxKnown is the number of known programs above which a list drops unloaded programs. At that
// number, each newly loaded program replaces an arbitrary one.
const maxKnown = 1 << 16

// Open starts to record who loads programs, until ctx is done or Close is called. With stats, the
// kernel also counts the runs of all programs, until Close is called or the process ends in any
// way.
func Open(ctx context.Context, procfs, sysfs string, stats bool) (*Registry, error) {
	r := &Registry{
		processes: procname.In(procfs), stop: func() {},
		programs: new(bpf.Reader), known: make(map[uint32]Details),
	}
	if stats {
		if err := r.count(); err != nil {
			return nil, err
		}
	}
	opts := perfring.SymbolOptions(sysfs)
	opts.Delay = time.Millisecond
	ring, err := perfring.Open(opts)
	if err != nil {
		r.unwatched = err
		return r, nil //nolint:nilerr // everything else is known
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(ctx, ring) })
	r.stop = func() { cancel(); watching.Wait() }
	return r, nil
}

// Close stops recording and counting.
func (r *Registry) Close() error {
	r.stop()
	return r.stopCounting()
}

// count makes the kernel count runs.
func (r *Registry) count() (err error) {
	r.counting, err = bpf.EnableStats()
	return err
}

// stopCounting ends it.
func (r *Registry) stopCounting() (err error) {
	if r.counting != nil {
		err = r.counting.Close()
	}
	r.counting = nil
	return err
}

// List asks the kernel for all programs. The error explains why the kernel does not list them.
func (r *Registry) List() (Reading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reading := Reading{At: time.Now(), Stats: make(map[uint32]bpf.Stats)}
	if err := r.list(&reading); err != nil {
		return Reading{}, err
	}
	for id, d := range r.known {
		_, there := reading.Stats[id]
		if d.Gone = !there; d.Gone && len(r.known) > maxKnown {
			delete(r.known, id)
		} else {
			r.known[id] = d
		}
	}
	return reading, nil
}

func (r *Registry) list(to *Reading) error {
	for id := uint32(0); ; {
		var err error
		if id, err = r.programs.Next(id); errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		stats, err := r.ask(id)
		switch {
		case err == nil:
			to.Stats[id] = stats
		case !errors.Is(err, bpf.ErrGone):
			return err
		}
	}
}

// ask asks the kernel for a program and keeps its description.
func (r *Registry) ask(id uint32) (bpf.Stats, error) {
	p, err := r.programs.Program(id, 0)
	if err != nil {
		return bpf.Stats{}, err
	}
	d := r.known[id]
	creator := p.Creator
	d.Name, d.Type, d.Tag, d.Creator = p.Name, p.TypeName(), hex.EncodeToString(p.Tag[:]), &creator
	r.known[id] = d
	return p.Stats, nil
}

// refreshInterval is the time between two reads of the list of online CPUs.
const refreshInterval = time.Second

// watch records who loads programs until ctx is done. It asks the kernel for each program at once,
// and thus also describes programs that are unloaded before the next list.
func (r *Registry) watch(ctx context.Context, ring bpfprog.EventSource) {
	err := topview.Recovered(func() (err error) {
		for refresh := time.Now(); err == nil; {
			err = ring.Wait(ctx, time.Now().Add(refreshInterval))
			r.note(ring.Poll().Records)
			if now := time.Now(); err == nil && now.After(refresh) {
				refresh = now.Add(refreshInterval)
				err = ring.RefreshCPUs(false)
			}
		}
		return err
	})
	closeErr := ring.Close()
	if ctx.Err() != nil {
		return // watching was meant to end
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unwatched = errors.Join(err, closeErr)
}

// note evaluates the records of program loads.
func (r *Registry) note(records []perfring.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range records {
		rec := &records[i]
		if rec.Type != perfring.TypeBPFEvent || rec.Program.Event != perfring.ProgramLoad {
			continue
		}
		id := rec.Program.ID
		r.makeRoom()
		r.known[id] = Details{Tag: hex.EncodeToString(rec.Program.Tag[:]), LoadedBy: r.processes.Process(rec.PID)}
		_, _ = r.ask(id) // if the program is already gone, nothing more will be known
	}
}

// makeRoom forgets a program if too many are known. If that program is still loaded, the next list
// restores everything except who loaded it.
func (r *Registry) makeRoom() {
	if len(r.known) < maxKnown {
		return
	}
	for id := range r.known {
		delete(r.known, id)
		return
	}
}

// Known returns the details of all known programs, and the reason if their loaders are unknown.
func (r *Registry) Known() (map[uint32]Details, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.known), r.unwatched
}
