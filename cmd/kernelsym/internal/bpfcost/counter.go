// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"cmp"
	"slices"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/symbolize"
)

// A Counter counts the samples of programs.
type Counter struct {
	costs   map[Key]*Cost
	samples int64 // all samples
	running int64 // samples in a program or in code that it called
}

// A Key identifies a program or trampoline: by the program's id or, if that is unknown, by the
// kernel's symbol.
type Key struct {
	ID     uint32
	Symbol string
}

// A Cost has the samples of a program or trampoline.
type Cost struct {
	Tag, Type, Name string // empty if they are not known

	Self, Total, Interrupted int64 // samples

	lines map[Line]int64 // samples of Total that have a source line
}

// A Line is a source line.
type Line struct {
	File string
	Line int64
}

// NewCounter returns a counter without samples.
func NewCounter() *Counter { return &Counter{costs: make(map[Key]*Cost)} }

// Add counts the samples of a message.
func (c *Counter) Add(n *rewrite.Named) {
	parts := parts{counter: c, named: n, known: make(map[int]*part)}
	for p := range n.Profiles() {
		for s := range p.Samples() {
			c.addSample(s, &parts)
		}
	}
}

// Merge adds the counts of another counter.
func (c *Counter) Merge(o *Counter) {
	c.samples, c.running = c.samples+o.samples, c.running+o.running
	for key, from := range o.costs {
		to := c.cost(key)
		to.Tag, to.Type, to.Name = cmp.Or(from.Tag, to.Tag), cmp.Or(from.Type, to.Type), cmp.Or(from.Name, to.Name)
		to.Self, to.Total, to.Interrupted = to.Self+from.Self, to.Total+from.Total, to.Interrupted+from.Interrupted
		for line, n := range from.lines {
			to.lines[line] += n
		}
	}
}

func (c *Counter) cost(key Key) *Cost {
	cost := c.costs[key]
	if cost == nil {
		cost = &Cost{lines: make(map[Line]int64)}
		c.costs[key] = cost
	}
	return cost
}

// Samples returns the number of all samples, and of samples in a program or in code that it called.
func (c *Counter) Samples() (all, running int64) { return c.samples, c.running }

// addSample counts a sample. Each program counts once, where it is nearest to the leaf.
func (c *Counter) addSample(s *rewrite.NamedSample, parts *parts) {
	c.samples += s.Weight
	interrupted, running := false, false
	var callee *part
	var seen []*Cost
	for i, frame := range s.Frames {
		before := callee
		p := parts.at(frame.Code)
		callee = p
		if i > 0 && frame.Role == symbolize.Exact {
			interrupted = true
		}
		if p.cost == nil || slices.Contains(seen, p.cost) {
			continue
		}
		if frame.Role == symbolize.AfterThunk && p.isFirst {
			continue // it was about to be jumped to
		}
		seen = append(seen, p.cost)
		switch {
		case i == 0:
			p.cost.Self += s.Weight
			p.cost.addTotal(p, s.Weight)
			running = true
		case !p.isBPF && !before.isBridge:
		case interrupted:
			p.cost.Interrupted += s.Weight
		default:
			p.cost.addTotal(p, s.Weight)
			running = true
		}
	}
	if running {
		c.running += s.Weight
	}
}

func (c *Cost) addTotal(p *part, weight int64) {
	c.Total += weight
	if p.line.Line != 0 {
		c.lines[p.line] += weight
	}
}

// Hottest returns the source line that the program was in for the most samples, either in the line
// itself or in code that it called. It also returns the number of these samples, which is 0 if no
// line is known.
func (c *Cost) Hottest() (hottest Line, samples int64) {
	for line, n := range c.lines {
		if n > samples || n == samples && (line.File < hottest.File || line.File == hottest.File && line.Line < hottest.Line) {
			hottest, samples = line, n
		}
	}
	return hottest, samples
}
