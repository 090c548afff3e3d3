// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Counter counts the samples of programs.
type Counter struct {
	core    *timeline.Image // the kernel of the last message
	costs   map[Key]*Cost
	samples int64 // all samples
	running int64 // samples in a program or in code that it called
	leaves  bool  // for some messages, only Self is known
}

// A Key identifies a program or trampoline: by the program's id or, if that is unknown, by the
// kernel's symbol.
type Key struct {
	ID     uint32
	Symbol string
}

// A Cost has the samples of a program or trampoline.
type Cost struct {
	Tag, Type, Name string // from the profile; empty if it has none

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

// Add counts the samples of a named message, whose addresses are relative. core is the kernel that
// was sampled. If core is nil or does not locate its entry code, Add counts only Self, because
// nothing else would be certain. The error wraps profilefile.ErrInvalid.
func (c *Counter) Add(pd pprofile.Profiles, core *timeline.Image) error {
	if c.core = core; core == nil || core.Text.Landmarks == nil || core.Text.Landmarks.Entry == (symtab.Range{}) {
		c.core, c.leaves = nil, true
	}
	frames, err := profilefile.KernelFrames(pd)
	if err != nil {
		return err
	}
	parts := make([]part, len(frames))
	for i := range frames {
		parts[i] = c.part(&frames[i])
	}
	return profilefile.EachSample(pd, func(s *profilefile.Sample) error {
		stack, err := partsOf(s.Stack, parts)
		if err != nil {
			return err
		}
		c.addStack(stack, profilefile.Weight(s.Sample))
		return nil
	})
}

// Merge adds the counts of another counter.
func (c *Counter) Merge(o *Counter) {
	c.samples, c.running, c.leaves = c.samples+o.samples, c.running+o.running, c.leaves || o.leaves
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

// OnlySelf reports whether Total and Interrupted are unknown.
func (c *Counter) OnlySelf() bool { return c.leaves }

// addStack counts a stack, leaf first. Each program counts once, where it is nearest to the
// leaf.
func (c *Counter) addStack(stack []part, weight int64) {
	c.samples += weight
	interrupted, running := false, false
	var seen []*Cost
	for i := range stack {
		p := &stack[i]
		if i > 0 && stack[i-1].isEntry && !p.isEntry {
			interrupted = true
		}
		if p.cost == nil || slices.Contains(seen, p.cost) {
			continue
		}
		if i > 0 && stack[i-1].isThunk && p.isFirst {
			continue // it was about to be jumped to (see contract 2.3)
		}
		seen = append(seen, p.cost)
		switch {
		case i == 0:
			p.cost.Self += weight
			p.cost.addTotal(p, weight)
			running = true
		case c.core == nil, !p.isBPF && !stack[i-1].isBridge:
		case interrupted:
			p.cost.Interrupted += weight
		default:
			p.cost.addTotal(p, weight)
			running = true
		}
	}
	if running {
		c.running += weight
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
