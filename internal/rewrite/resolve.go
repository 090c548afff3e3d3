// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/scratch"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// An answer says what a frame is, for one question, at one time.
type answer struct {
	change   change
	outcome  Outcome
	gave     inline.Result // by a pack
	varies   bool          // it is another one at some time of the message
	function int32         // the index of the symbol in the function table; 0 if it was not interned
}

// A change is what an answer changes in a location. Equal changes are written alike.
type change struct {
	kind    changeKind
	form    addressForm
	lines   inline.Chain    // writeName
	address uint64          // writeImage, writeName
	image   *timeline.Image // writeImage, writeName
	symbol  symtab.Symbol   // writeName
	label   uint64          // writeImage: the address that is written for a name, 0 for none
}

// changeKind says how much is written. Each kind writes everything that the kinds before
// it write, except writeNoMapping.
type changeKind uint8

const (
	leaveUntouched changeKind = iota
	writeType                 // the frame type
	writeNoMapping            // that no mapping covers the address
	writeImage                // the mapping of an image, and the address in it
	writeName                 // a name, and what else is known of the code
)

// gaveUnwritten returns the pack's result where its lines are not written: only a result without lines counts.
func (a *answer) gaveUnwritten() inline.Result {
	if a.change.lines != inline.NoChain {
		return inline.NotAsked
	}
	return a.gave
}

// resolve finds the answers to all questions, in the order of the addresses, so that successive lookups touch
// neighboring memory. A location whose roles lead to different answers (contract 2.4) is left to splitFrames, as is
// one whose answer depends on the time.
func (p *pass) resolve() {
	n := len(p.questions.all)
	p.answers = scratch.Resized(p.answers, n) // close left them zero
	for i := range p.questions.all {
		q := &p.questions.all[i]
		f, role := &p.frames[q.frame], p.questions.roleOf(q)
		during := timeline.Always
		if role.Producer != symbolize.OtherHost && !f.code.IsTimeless() {
			during = p.times.whole()
		}
		a := &p.answers[i]
		same := p.answerTo(f, role, during, a)
		a.varies = !same.Holds(during)
		switch {
		case a.varies:
			f.varies = true
		case f.answer == noAnswer:
			f.answer = questionIndex(i)
		case a.change != p.answers[f.answer].change:
			f.varies = true
		}
	}
}

// hasAnswers reports whether something may be written.
func (p *pass) hasAnswers() bool {
	for i := range p.frames {
		f := &p.frames[i]
		if f.varies || f.answer != noAnswer && p.answers[f.answer].change.kind != leaveUntouched {
			return true
		}
	}
	return false
}

// answerTo says what a frame is, in a role, for an interval. For all intervals in same, the answer is the same; same
// is empty if parts of the interval have other answers. A frame whose role is not known has an answer if that is the
// same for each role it may have (see contract 2.3). The answer must be the zero value before.
func (p *pass) answerTo(f *frame, role symbolize.Role, during timeline.Interval, a *answer) (same timeline.Interval) {
	if role.Kind != symbolize.Unknown {
		return p.answerInRole(f, role, during, a)
	}
	caller, exact := role.Possible()
	var other answer
	same = p.answerInRole(f, caller, during, &other)
	same = same.And(p.answerInRole(f, exact, during, a))
	if a.change != other.change {
		*a = answer{outcome: OutcomeUnresolved, change: change{kind: writeType}}
		if p.opts.Gateway {
			*a = answer{outcome: OutcomeNoPack}
		}
	}
	return same
}

// answerInRole is answerTo for a role that is known.
func (p *pass) answerInRole(f *frame, role symbolize.Role, during timeline.Interval, a *answer) (same timeline.Interval) {
	is, same := p.kernel.Resolve(&f.code, role, during)
	a.outcome = Outcome(is.Outcome)
	c := &a.change
	switch {
	case is.Outcome == symbolize.Foreign, is.Outcome == symbolize.NoPack:
		return same
	case is.Image == nil && f.code.IsAbsolute():
		c.kind = writeNoMapping
		return same
	case is.Image == nil:
		c.kind = writeType
		return same
	}
	address, form, ok := p.outAddress(&f.code, role, &is)
	if !ok {
		a.outcome, c.kind = OutcomeUnresolved, writeType
		return same
	}
	c.kind, c.image, c.address, c.form = writeImage, is.Image, address, form
	switch {
	case is.Symbol.Exists():
		c.kind, c.symbol = writeName, is.Symbol
		c.lines, a.gave = p.linesOf(&is)
	case p.opts.Label && is.Image.Base() != 0:
		c.label = is.Address
	}
	return same
}

// linesOf returns the source lines of an answer (contract 3.6), and the pack's result. There are none if it has two addresses
// with different lines.
func (p *pass) linesOf(is *symbolize.Answer) (chain inline.Chain, gave inline.Result) {
	chain, gave = p.linesAt(is, is.Address)
	if !is.OrNext || chain == inline.NoChain {
		return chain, gave
	}
	if next, _ := p.linesAt(is, is.Address+1); next == chain {
		return chain, gave
	}
	if gave != inline.NotAsked {
		gave = inline.GaveNothing
	}
	return inline.NoChain, gave
}

func (p *pass) linesAt(is *symbolize.Answer, addr uint64) (inline.Chain, inline.Result) {
	switch {
	case is.Image.IsFunction():
		return p.lines.OfProgram(is.Image, is.Symbol, addr), inline.NotAsked
	case p.opts.DebugInfo && is.Image.BuildID() != "":
		return p.lines.At(is.Image, is.Symbol, addr)
	}
	return inline.NoChain, inline.NotAsked
}
