package bpfcost

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

// A Registry keeps what the kernel tells of programs, also of those that are gone. Its methods
// are safe for concurrent use.
type Registry struct {
	procfs, sysfs string

	mu       sync.Mutex // held while the kernel is asked
	programs Programs
	known    map[uint32]*Details
	first    time.Time // when the programs were listed first
	last     time.Time // and last
}

// Programs tells what is there; a bpf.Reader.
type Programs interface {
	Next(after uint32) (id uint32, err error)
	Program(id uint32, want bpf.Want) (*bpf.Program, error)
}

// Details are what is known of a program but for its samples.
type Details struct {
	ID       uint32
	Name     string // cut off after 15 bytes, as the kernel keeps it
	Type     string // empty if it is not known
	Tag      string // 16 hex digits
	Creator  *uint32
	LoadedBy *Process // nil if no record told
	Gone     bool     // it was unloaded

	before, after bpf.Stats // when it was seen first and last
}

// A Process is one that loaded a program.
type Process struct {
	PID  uint32 `json:"pid"`
	Name string `json:"name,omitempty"` // empty if it had ended
}

// Stats returns what the kernel has counted since the registry knows the program.
func (d *Details) Stats() bpf.Stats {
	return bpf.Stats{Runs: d.after.Runs - d.before.Runs, RunTime: d.after.RunTime - d.before.RunTime}
}

// maxKnown is the number of programs above which those that are gone are forgotten.
const maxKnown = 1 << 16

// NewRegistry returns a registry that knows nothing.
func NewRegistry(procfs, sysfs string) *Registry {
	return &Registry{
		procfs: procfs, sysfs: sysfs,
		programs: new(bpf.Reader), known: make(map[uint32]*Details),
	}
}

// List asks the kernel for all programs. It is worth calling as often as their statistics are
// printed. The error says why the kernel does not tell.
func (r *Registry) List() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := make(map[uint32]bool)
	err := r.list(there)
	if err == nil {
		for id, d := range r.known {
			if d.Gone = !there[id]; d.Gone && len(r.known) > maxKnown {
				delete(r.known, id)
			}
		}
	}
	r.last = time.Now()
	if r.first.IsZero() {
		r.first = r.last
	}
	return err
}

func (r *Registry) list(there map[uint32]bool) error {
	for id := uint32(0); ; {
		var err error
		if id, err = r.programs.Next(id); errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch err := r.ask(id, r.first.IsZero()); {
		case err == nil:
			there[id] = true
		case !errors.Is(err, bpf.ErrGone):
			return err
		}
	}
}

// ask asks for a program. If it was there before the registry, what it did then does not count.
func (r *Registry) ask(id uint32, before bool) error {
	p, err := r.programs.Program(id, 0)
	if err != nil {
		return err
	}
	d := r.details(id)
	creator := p.Creator
	d.Name, d.Type, d.Tag, d.Creator, d.after = p.Name, p.TypeName(), hex.EncodeToString(p.Tag[:]), &creator, p.Stats
	if before {
		d.before = p.Stats
	}
	return nil
}

func (r *Registry) details(id uint32) *Details {
	d := r.known[id]
	if d == nil {
		d = &Details{ID: id}
		r.known[id] = d
	}
	return d
}

// Watch notes who loads programs, until ctx is done. It asks the kernel for each at once, so
// that those are known, too, that are gone before the next list.
func (r *Registry) Watch(ctx context.Context) error {
	opts := perfring.SymbolOptions(r.sysfs)
	opts.Delay = time.Millisecond
	ring, err := perfring.Open(opts)
	if err != nil {
		return err
	}
	defer ring.Close()
	for {
		err := ring.Wait(ctx, time.Now().Add(time.Second))
		r.note(ring.Drain().Records)
		if err == nil {
			err = ring.RefreshCPUs(false)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// note takes what records tell of loads.
func (r *Registry) note(records []perfring.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range records {
		rec := &records[i]
		if rec.Type != perfring.TypeBPFEvent || rec.Program.Event != perfring.ProgramLoad {
			continue
		}
		d := r.details(rec.Program.ID)
		if rec.PID != perfring.NoTask && rec.PID != 0 {
			d.LoadedBy = &Process{PID: rec.PID, Name: r.comm(rec.PID)}
		}
		d.Gone = r.ask(rec.Program.ID, false) != nil
	}
}

// comm returns the name of a process, empty if it has ended.
func (r *Registry) comm(pid uint32) string {
	text, _ := os.ReadFile(filepath.Join(r.procfs, strconv.FormatUint(uint64(pid), 10), "comm"))
	return strings.TrimSpace(string(text))
}

// Known returns what is known of all programs, and for how long the kernel's statistics have
// been read.
func (r *Registry) Known() (programs map[uint32]Details, over time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	programs = make(map[uint32]Details, len(r.known))
	for id, d := range r.known {
		programs[id] = *d
	}
	return programs, r.last.Sub(r.first)
}
