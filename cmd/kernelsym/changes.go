package main

import (
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
	bpfprog.Recorder
	loaders *loaders
}

func (n noting) Drain() perfring.Batch {
	b := n.Recorder.Drain()
	n.loaders.note(b.Records)
	return b
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

	// nameless are functions that were loaded, but of which no record has said yet of which
	// program they are. It comes right after theirs, and then there is another table.
	nameless map[uint64]*symtab.Image
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
	came, went := t.Since(last)
	was, is := byStart(went), byStart(came)
	for _, m := range went {
		if same(m, is[m.Start]) {
			continue
		}
		if c.isNameless(m) {
			all = append(all, c.loaded(m, clock))
		}
		at, ok := t.Ended(m)
		if !ok {
			at = clock.now
		}
		all = append(all, c.line(m, eventUnload, at, clock))
	}
	for _, m := range came {
		switch isNew := !same(m, was[m.Start]); {
		case isNew && m.Origin == symtab.OriginBPF && m.Program == nil && c.loaders.has(m.Start, m.Lifetime.From):
			if c.nameless == nil {
				c.nameless = make(map[uint64]*symtab.Image)
			}
			c.nameless[m.Start] = m
		case isNew || c.isNameless(m):
			all = append(all, c.loaded(m, clock))
		}
	}
	return all
}

func (c *changes) isNameless(m *symtab.Image) bool { return same(m, c.nameless[m.Start]) }

func (c *changes) loaded(m *symtab.Image, clock instant) change {
	delete(c.nameless, m.Start)
	return c.line(m, eventLoad, m.Lifetime.From, clock)
}

func byStart(images []*symtab.Image) map[uint64]*symtab.Image {
	byStart := make(map[uint64]*symtab.Image, len(images))
	for _, m := range images {
		byStart[m.Start] = m
	}
	return byStart
}

// same reports whether two images are one, of which only more became known.
func same(m, o *symtab.Image) bool {
	return o != nil && m.Start == o.Start && m.Lifetime.From == o.Lifetime.From && m.Name() == o.Name()
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

func (c *changes) line(m *symtab.Image, event string, at int64, clock instant) change {
	line := change{
		Time: clock.wall, Event: event, Kind: m.Origin.String(), Address: hexadecimal(m.Start), Bytes: m.End - m.Start,
		Name: m.Name(), Process: c.loaders.take(m.Start, at),
	}
	if m.Program != nil {
		line.Program = m.Program.ID
	}
	if line.Process != nil || m.Origin == symtab.OriginModule { // else it was found in a list
		line.Time, line.Delay = clock.of(at)
	}
	return line
}
