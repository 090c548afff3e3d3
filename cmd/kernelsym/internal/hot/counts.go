// SPDX-License-Identifier: Apache-2.0

// Package hot counts samples of kernel stacks by function.
package hot

import (
	"cmp"
	"maps"
	"slices"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// A Function is a function of the kernel, or all unnamed code of a module.
type Function struct {
	Name   string // printable.NoName if unknown
	Module string // empty if unknown
	Before bool   // it stands for the waits in the function that began before the start
}

// Preempted stands for what a thread waited for that could have gone on: a CPU. It is called by the function in which the
// thread was preempted or yielded.
const Preempted = "[preempted]"

// sinceBefore marks rows with waits that began before the start.
const sinceBefore = "since before"

// label returns the name with its mark.
func (f Function) label() string {
	if f.Before {
		return f.Name + " (" + sinceBefore + ")"
	}
	return f.Name
}

func (f Function) String() string {
	if f.Module == "" {
		return f.label()
	}
	return f.label() + " [" + f.Module + "]"
}

func compareFunctions(a, b Function) int {
	return cmp.Or(cmp.Compare(a.label(), b.label()), cmp.Compare(a.Module, b.Module))
}

// Counts are numbers of samples.
type Counts struct {
	All           int64 // samples in profiles
	Kernel, Guest int64 // samples with a kernel frame, and samples of guests
	Frames, Named int64 // kernel frames, counted once for each sample
	functions     map[Function]*function
}

// function counts the samples of a function.
type function struct {
	self, total int64              // in the function itself, and including the functions it called
	callers     map[Function]int64 // parts of total; the zero value stands for no caller
}

// NewCounts returns empty counts.
func NewCounts() *Counts { return &Counts{functions: make(map[Function]*function)} }

// Nameless reports whether there are kernel frames but none of them has a name.
func (c *Counts) Nameless() bool { return c.Frames > 0 && c.Named == 0 }

// Add adds the samples of a message, whatever type their values have.
func (c *Counts) Add(n *rewrite.Named) {
	codes := newCodes(n)
	for p := range n.Profiles() {
		for s := range p.Samples() {
			c.addSample(s, codes)
		}
	}
}

// codes are the codes of a message, by their numbers.
type codes struct {
	named *rewrite.Named
	known map[int]*code
}

func newCodes(n *rewrite.Named) *codes { return &codes{n, make(map[int]*code)} }

// code is what samples are counted for.
type code struct {
	isKernel, isGuest, hasName bool
	functions                  []Function // innermost first
}

// at returns the code with a number.
func (c *codes) at(number int) *code {
	is := c.known[number]
	if is == nil {
		is = newCode(c.named.Code(number))
		c.known[number] = is
	}
	return is
}

func newCode(is rewrite.Code) *code {
	c := &code{isKernel: is.IsKernel, isGuest: profilefile.IsGuest(&is), hasName: is.HasName()}
	for _, line := range is.Lines {
		c.functions = append(c.functions, Function{Name: cmp.Or(line.Function, printable.NoName), Module: is.File})
	}
	if len(c.functions) == 0 {
		c.functions = []Function{{Name: printable.NoName, Module: is.File}}
	}
	return c
}

// addSample adds a sample. A function that occurs several times on the stack counts once. The caller of an inlined
// function is the function it was inlined into.
func (c *Counts) addSample(s *rewrite.NamedSample, codes *codes) {
	weight := s.Weight
	c.All += weight
	type call struct{ function, caller Function }
	calls := make(map[call]bool)
	seen := make(map[Function]bool)
	var callee Function
	called := func(by Function) {
		if edge := (call{callee, by}); callee != (Function{}) && !calls[edge] {
			calls[edge] = true
			c.functions[callee].callers[by] += weight
		}
	}
	isLeaf := true
	count := func(fn Function) {
		fn.Before = isLeaf && beganBefore(s)
		f := c.function(fn)
		if isLeaf {
			f.self += weight
		}
		isLeaf = false
		if !seen[fn] {
			f.total += weight
			seen[fn] = true
		}
		called(fn)
		callee = fn
	}
	for position, frame := range s.Frames {
		is := codes.at(frame.Code)
		if is.isGuest {
			c.Guest += weight
			return // a guest has no callers
		}
		if !is.isKernel {
			isLeaf = false
			continue
		}
		if position == 0 && wasPreempted(s) {
			count(Function{Name: Preempted})
		}
		c.Frames += weight
		if is.hasName {
			c.Named += weight
		}
		for _, fn := range is.functions {
			count(fn)
		}
	}
	called(Function{})
	if len(seen) > 0 {
		c.Kernel += weight
	}
}

// wasPreempted reports whether a sample is a wait of a thread that could have gone on.
func wasPreempted(s *rewrite.NamedSample) bool {
	involuntary := semconv.ProcessContextSwitchTypeInvoluntary
	kind, ok := s.Attribute(string(involuntary.Key))
	return ok && kind.Text == involuntary.Value.AsString()
}

// beganBefore reports whether a sample is a wait that began before the start.
func beganBefore(s *rewrite.NamedSample) bool {
	_, ok := s.Attribute(kernelstack.KeyBefore)
	return ok
}

func (c *Counts) function(fn Function) *function {
	f := c.functions[fn]
	if f == nil {
		f = &function{callers: make(map[Function]int64)}
		c.functions[fn] = f
	}
	return f
}

// merge adds other counts.
func (c *Counts) merge(o *Counts) {
	c.All, c.Kernel, c.Guest = c.All+o.All, c.Kernel+o.Kernel, c.Guest+o.Guest
	c.Frames, c.Named = c.Frames+o.Frames, c.Named+o.Named
	for fn, from := range o.functions {
		f := c.function(fn)
		f.self, f.total = f.self+from.self, f.total+from.total
		for caller, n := range from.callers {
			f.callers[caller] += n
		}
	}
}

// The keys that functions can be sorted by.
const (
	BySelf  = "self"
	ByTotal = "total"
)

// sorted returns the functions in descending order of samples. Functions with the same rank are in the order of their names.
func (c *Counts) sorted(by string, rank rank) []Function {
	return slices.SortedFunc(maps.Keys(c.functions), func(a, b Function) int {
		x, y := c.functions[a], c.functions[b]
		self, total := rank.compare(y.self, x.self), rank.compare(y.total, x.total)
		if by == ByTotal {
			self, total = total, self
		}
		return cmp.Or(self, total, compareFunctions(a, b))
	})
}
