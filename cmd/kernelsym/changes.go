// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A change is kernel code that came or went.
type change struct {
	Time    time.Time         `json:"time"` // of the kernel's record; if there was none, when it was noticed
	Event   string            `json:"event"`
	Kind    string            `json:"kind"`
	Address hexadecimal       `json:"address"`
	Bytes   uint64            `json:"bytes,omitempty"` // 0 if that is not certain
	Name    string            `json:"name"`
	Program uint32            `json:"program_id,omitempty"`
	Process *procname.Process `json:"process,omitempty"`  // that loaded it; nil if that is not certain
	Delay   *milliseconds     `json:"delay_ms,omitempty"` // from the record to the table; nil if there was none
}

const (
	eventLoad   = "load"
	eventUnload = "unload"
)

// changes finds out what changed from one table of a source to the next.
type changes struct {
	loaders *loaders // nil of a source without records
	last    *timeline.Table

	// nameless are functions that were loaded, but of which no record has said yet of which
	// program they are. It comes right after theirs, and then there is another table.
	nameless map[uint64]*timeline.Image
}

// next returns what changed from the last table to this one, in the order of the times. What the
// first has was there before.
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

// same reports whether two images are one, of which only more became known.
func same(m, o *timeline.Image) bool {
	return o != nil && m.Start == o.Start && m.Lifetime.From == o.Lifetime.From && m.Name() == o.Name()
}

// instant is one moment on two clocks.
type instant struct {
	now  int64
	wall time.Time
}

// of returns when something was on the wall clock, and how long ago.
func (i instant) of(at int64) (time.Time, *milliseconds) {
	delay := time.Duration(i.now - at)
	ms := milliseconds(delay)
	return i.wall.Add(-delay), &ms
}

func (c *changes) line(m *timeline.Image, event string, at int64, clock instant) change {
	line := change{
		Time: clock.wall, Event: event, Kind: m.Origin.String(), Address: hexadecimal(m.Start), Name: m.Name(),
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
