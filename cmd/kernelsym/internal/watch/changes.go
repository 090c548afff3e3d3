// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A change is kernel code that was loaded or unloaded.
type change struct {
	Time    time.Time         `json:"time"` // time of the kernel's record or, without one, when it was noticed
	Event   string            `json:"event"`
	Kind    string            `json:"kind"`
	Address printable.Address `json:"address"`
	Bytes   uint64            `json:"bytes,omitempty"` // 0 if uncertain
	Name    string            `json:"name"`
	Program uint32            `json:"program_id,omitempty"`
	Process *procname.Process `json:"process,omitempty"`  // the process that loaded it; nil if uncertain
	Delay   *milliseconds     `json:"delay_ms,omitempty"` // from the record to the table; nil without a record
}

const (
	eventLoad   = "load"
	eventUnload = "unload"
)

// changes finds the differences between successive tables of a source.
type changes struct {
	loaders *loaders // nil for a source without records
	last    *timeline.Table

	// nameless holds loaded functions whose program is not yet known. The record that names the
	// program follows theirs immediately, and results in another table.
	nameless map[uint64]*timeline.Image
}

// next returns the changes from the previous table to this one, in the order of their times. The
// code in the first table was loaded earlier and is not a change.
func (c *changes) next(t *timeline.Table) (all []change) {
	last := c.last
	c.last = t
	if last == nil {
		c.loaders.begin()
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
		case isNew && m.Origin == timeline.OriginBPF && m.Program == nil && c.loaders.has(m.Start, m.Lifetime.From):
			if c.nameless == nil {
				c.nameless = make(map[uint64]*timeline.Image)
			}
			c.nameless[m.Start] = m
		case isNew || c.isNameless(m):
			all = append(all, c.loaded(m, clock))
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return a.Time.Compare(b.Time) })
	return all
}

func (c *changes) isNameless(m *timeline.Image) bool { return same(m, c.nameless[m.Start]) }

func (c *changes) loaded(m *timeline.Image, clock instant) change {
	delete(c.nameless, m.Start)
	return c.line(m, eventLoad, m.Lifetime.From, clock)
}

func byStart(images []*timeline.Image) map[uint64]*timeline.Image {
	byStart := make(map[uint64]*timeline.Image, len(images))
	for _, m := range images {
		byStart[m.Start] = m
	}
	return byStart
}

// same reports whether two images are the same code, even if more is known about it in one of them.
func same(m, o *timeline.Image) bool {
	return o != nil && m.Start == o.Start && m.Lifetime.From == o.Lifetime.From && m.Name() == o.Name()
}

// instant is one moment on two clocks.
type instant struct {
	now  int64
	wall time.Time
}

// of returns the time of an event on the wall clock, and how long ago it was.
func (i instant) of(at int64) (time.Time, *milliseconds) {
	delay := time.Duration(i.now - at)
	ms := milliseconds(delay)
	return i.wall.Add(-delay), &ms
}

func (c *changes) line(m *timeline.Image, event string, at int64, clock instant) change {
	line := change{
		Time: clock.wall, Event: event, Kind: m.Origin.String(), Address: printable.Address(m.Start), Name: m.Name(),
	}
	if !m.Yields() {
		line.Bytes = m.End - m.Start
	}
	if m.Program != nil {
		line.Program = m.Program.ID
	}
	if by, recorded := c.loaders.take(m.Start, at); recorded {
		line.Process = by
		line.Time, line.Delay = clock.of(at)
	}
	return line
}
