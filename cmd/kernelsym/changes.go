package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// A change is a piece of kernel code that came or went.
type change struct {
	Time    time.Time     `json:"time"` // of the event; if there was none, when it was noticed
	Event   string        `json:"event"`
	Kind    string        `json:"kind"`
	Address hexadecimal   `json:"address"`
	Bytes   uint64        `json:"bytes"`
	Name    string        `json:"name"`
	Program uint32        `json:"program_id,omitempty"`
	Process *process      `json:"process,omitempty"`  // nil if that is not known
	Delay   *milliseconds `json:"delay_ms,omitempty"` // from the event to the table; nil if there was none
}

// process is who loaded or unloaded something.
type process struct {
	PID  uint32 `json:"pid"`
	Name string `json:"name,omitempty"` // empty if it has ended since
}

const (
	eventLoad   = "load"
	eventUnload = "unload"
)

// moment is when something was at an address, on the clock of records.
type moment struct {
	addr uint64
	at   int64
}

// loaders remember which process is behind a record, from when it is read until the
// table is published that has it.
type loaders struct {
	procfs string
	by     map[moment]process
}

// noting is a recorder whose records are noted.
type noting struct {
	*perfring.Reader
	loaders *loaders
}

var _ bpfprog.Recorder = noting{}

func (n noting) Read(ctx context.Context, deadline time.Time) ([]perfring.Record, error) {
	records, err := n.Reader.Read(ctx, deadline)
	n.loaders.note(records)
	return records, err
}

func (l *loaders) note(records []perfring.Record) {
	const enough = 1 << 16 // some are never asked for, as they were no change
	if len(l.by) > enough {
		clear(l.by)
	}
	names := make(map[uint32]string)
	for i := range records {
		r := &records[i]
		if r.Type != perfring.TypeKsymbol {
			continue
		}
		name, ok := names[r.PID]
		if !ok {
			text, _ := os.ReadFile(filepath.Join(l.procfs, strconv.FormatUint(uint64(r.PID), 10), "comm"))
			name = strings.TrimSpace(string(text))
			names[r.PID] = name
		}
		l.by[moment{r.Symbol.Addr, r.Time}] = process{PID: r.PID, Name: name}
	}
}

// take returns who did something, nil if no record said so.
func (l *loaders) take(addr uint64, at int64) *process {
	key := moment{addr, at}
	p, ok := l.by[key]
	if !ok {
		return nil
	}
	delete(l.by, key)
	return &p
}

// has reports whether a record said who did something.
func (l *loaders) has(addr uint64, at int64) bool {
	_, ok := l.by[moment{addr, at}]
	return ok
}

// changes finds out what changed from one table of a source to the next.
type changes struct {
	loaders *loaders
	last    *symtab.Table

	// nameless are functions that came, but of which no record has said yet of which
	// program they are. It comes right after theirs, and then there is another table.
	nameless map[uint64]*symtab.Function
}

// next returns what changed from the last table to this one. What the first has was
// there before.
func (c *changes) next(t *symtab.Table) (all []change) {
	last := c.last
	c.last = t
	if last == nil {
		return nil
	}
	clock := instant{now: perfring.Boottime.Now(), wall: time.Now()}
	came, went := t.FunctionsSince(last)
	was, is := byStart(went), byStart(came)
	for _, f := range went {
		if same(f, is[f.Start]) {
			continue
		}
		if c.isNameless(f) {
			all = append(all, c.loaded(f, clock))
		}
		at := int64(math.MinInt64)
		if past, ok := t.Lookup(f.Start, symtab.Instant(f.Valid.From)); ok && past.Function.Valid.From == f.Valid.From {
			at = past.Function.Valid.To
		}
		all = append(all, c.function(f, eventUnload, at, clock))
	}
	for _, f := range came {
		switch isNew := !same(f, was[f.Start]); {
		case isNew && f.Origin == symtab.OriginBPF && f.Program == nil && c.loaders.has(f.Start, f.Valid.From):
			if c.nameless == nil {
				c.nameless = make(map[uint64]*symtab.Function)
			}
			c.nameless[f.Start] = f
		case isNew || c.isNameless(f):
			all = append(all, c.loaded(f, clock))
		}
	}
	return append(all, modules(last, t, clock)...)
}

func (c *changes) isNameless(f *symtab.Function) bool { return same(f, c.nameless[f.Start]) }

func (c *changes) loaded(f *symtab.Function, clock instant) change {
	delete(c.nameless, f.Start)
	return c.function(f, eventLoad, f.Valid.From, clock)
}

func byStart(functions []*symtab.Function) map[uint64]*symtab.Function {
	m := make(map[uint64]*symtab.Function, len(functions))
	for _, f := range functions {
		m[f.Start] = f
	}
	return m
}

// same reports whether two functions are one, of which only more became known.
func same(f, g *symtab.Function) bool {
	return g != nil && f.Valid.From == g.Valid.From && f.Name() == g.Name() && f.Size == g.Size
}

// instant is one moment on two clocks.
type instant struct {
	now  int64
	wall time.Time
}

func (i instant) of(at int64) (time.Time, *milliseconds) {
	delay := time.Duration(i.now - at)
	ms := milliseconds(delay)
	return i.wall.Add(-delay), &ms
}

func (c *changes) function(f *symtab.Function, event string, at int64, clock instant) change {
	line := change{
		Time: clock.wall, Event: event, Kind: f.Origin.String(), Address: hexadecimal(f.Start), Bytes: uint64(f.Size),
		Name: f.Name(), Process: c.loaders.take(f.Start, at),
	}
	if f.Program != nil {
		line.Program = f.Program.ID
	}
	if line.Process != nil { // else it was found in a list
		line.Time, line.Delay = clock.of(at)
	}
	return line
}

// modules returns the modules that came and went between two tables.
func modules(last, t *symtab.Table, clock instant) (all []change) {
	type key struct {
		name string
		moment
	}
	keyOf := func(m *symtab.Module) key { return key{m.Name, moment{m.Start, m.Valid.From}} }
	was, is := make(map[key]bool), make(map[key]bool)
	for _, m := range last.Modules() {
		was[keyOf(m)] = true
	}
	for _, m := range t.Modules() {
		is[keyOf(m)] = true
	}
	line := func(m *symtab.Module, event string, at int64) change {
		c := change{
			Event: event, Kind: m.Origin.String(), Address: hexadecimal(m.Start), Bytes: m.End - m.Start, Name: m.Name,
		}
		c.Time, c.Delay = clock.of(at)
		return c
	}
	for _, m := range last.Modules() {
		if !is[keyOf(m)] {
			at := clock.now
			if past, ok := t.ModuleAt(m.Start, symtab.Instant(m.Valid.From)); ok && past.Valid.From == m.Valid.From {
				at = past.Valid.To
			}
			all = append(all, line(m, eventUnload, at))
		}
	}
	for _, m := range t.Modules() {
		if !was[keyOf(m)] {
			all = append(all, line(m, eventLoad, m.Valid.From))
		}
	}
	return all
}
