// SPDX-License-Identifier: Apache-2.0

package rewrite

import "github.com/kernelsym/kernelsym/internal/timeline"

// resolver answers what an address was, for a use and a time, from a snapshot.
type resolver struct {
	given  func() *timeline.Snapshot // see Known
	loaded bool                      // the snapshot was asked for
	kernelText
	opts  *Options
	lines packLines
}

// begin begins a message.
func (r *resolver) begin(known *Known, opts *Options) {
	r.given, r.opts, r.gateway = known.Snapshot, opts, opts.Gateway
	r.lines.begin(known.Packs, opts.Inline)
}

func (r *resolver) end() {
	r.lines.end()
	*r = resolver{lines: r.lines}
}

// load asks for the snapshot, once for a message.
func (r *resolver) load() *resolver {
	if !r.loaded {
		r.loaded = true
		if r.given != nil {
			r.snapshot = r.given()
		}
		r.marks = r.snapshot.Landmarks()
	}
	return r
}

// answer is what a frame is, for one use, at one time. Two answers are written alike if
// what they say, their written part, is equal.
type answer struct {
	written
	outcome Outcome
	pack    PackResult // answerNamed: what the pack gave, if the image has a build id
}

// written is what is written for an answer.
type written struct {
	kind  answerKind
	bare  bool // see placing
	isRel bool // the address counts from the image's base

	// line is -1 if there is none: of a BPF function, the position in its Lines; of
	// others, the number of the chain that their pack has.
	line int32

	image   *timeline.Image // answerOwned, answerNamed
	address uint64          // the location's
	looked  uint64          // an address in the symbol, or the one that was looked up
}

// answerKind says what is written.
type answerKind uint8

const (
	answerUntouched answerKind = iota // nothing: it is not ours to answer
	answerTyped                       // that it is kernel code
	answerUnknown                     // and that it belongs to no mapping
	answerOwned                       // of which image it is
	answerNamed                       // and its name
)

// nothing returns the answer that says no more than what is written for its kind.
func nothing(kind answerKind, outcome Outcome) answer {
	return answer{written: written{kind: kind}, outcome: outcome}
}

// origin returns the kind of code, OriginKernel if it is not known.
func (a *answer) origin() timeline.Origin {
	if a.image == nil {
		return timeline.OriginKernel
	}
	return a.image.Origin
}

var outcomeOf = [...]Outcome{
	timeline.ReasonNone:       OutcomeUnresolved,
	timeline.ReasonAmbiguous:  OutcomeAmbiguous,
	timeline.ReasonUnobserved: OutcomeUnobserved,
	timeline.ReasonUnresolved: OutcomeUnresolved,
}

// question is what is asked about a frame.
type question struct {
	*frame
	mapping *mapping
	how     use
}

// answer answers a question for an interval. span is an interval that holds that one; for
// all intervals in it, the answer is the same. It is empty if there is none.
func (r *resolver) answer(q question, during timeline.Interval) (a answer, span timeline.Interval) {
	c := &q.mapping.content
	switch {
	case q.how >= useUnknown:
		return r.eitherWay(q, during)
	case q.how == useForeign || q.mapping.isGuest:
		return nothing(answerUntouched, OutcomeForeign), timeline.Always
	case q.form == formNone && c.hasID() && !r.knows(c):
		return nothing(answerUntouched, OutcomeForeign), timeline.Always
	case q.form == formNone:
		return nothing(answerTyped, OutcomeUnresolved), timeline.Always
	}
	l := look{resolver: r, during: during, span: timeline.Always}
	ip := q.addr
	switch q.form {
	case formImage:
		l.image = q.image
	case formNamed:
		image, reason := r.snapshot.Module(q.mapping.module, during)
		if image == nil {
			return nothing(answerTyped, outcomeOf[reason]), timeline.Interval{}
		}
		if l.span = during; !inKernelHalf(image.Base() + q.sent) {
			return nothing(answerTyped, OutcomeUnresolved), during
		}
		l.image, ip = image, image.Base()+q.sent
	}
	hit, looked := l.find(q, ip)
	if q.form == formAbsolute && r.contradicts(c, hit.Image) {
		return nothing(answerUntouched, OutcomeForeign), l.span
	}
	return r.write(q, &hit, ip, looked), l.span
}

// eitherWay answers a question about a frame of which it is not known whether it is exact or a
// caller: with what is written for both, if that is the same.
func (r *resolver) eitherWay(q question, during timeline.Interval) (a answer, span timeline.Interval) {
	exact, caller := q, q
	exact.how, caller.how = useExact, 0
	if q.how == useUnknownEBPF {
		exact.how, caller.how = useExact|useEBPF, useEBPF
	}
	b, span := r.answer(caller, during)
	if r.isInterruptionUnknown() {
		return b, span // it is the same, or none
	}
	a, same := r.answer(exact, during)
	span.From, span.To = max(span.From, same.From), min(span.To, same.To)
	switch {
	case a.written == b.written:
	case r.opts.Gateway:
		a = nothing(answerUntouched, OutcomeNoPack)
	default:
		a = nothing(answerTyped, OutcomeUnresolved)
	}
	return a, span
}

// write returns the answer that is what was found.
func (r *resolver) write(q question, hit *timeline.Hit, ip, looked uint64) (a answer) {
	a.outcome, a.image, a.line = outcomeOf[hit.Reason], hit.Image, -1
	if a.image == nil {
		a.kind = answerUnknown
		if q.form != formAbsolute {
			a.kind = answerTyped
		}
		return a
	}
	a.kind, a.looked = answerOwned, looked
	r.place(&a, q, ip, looked)
	if a.bare && q.form != formAbsolute { // its absolute address is that of one load only
		return nothing(answerTyped, OutcomeUnresolved)
	}
	if hit.Symbol.Exists() {
		a.kind, a.outcome, a.looked = answerNamed, OutcomeResolved, hit.Symbol.Start
		switch {
		case a.image.Text == nil:
			a.line = int32(a.image.Lines.Find(uint32(looked - hit.Symbol.Start)))
		case r.opts.DebugInfo && a.image.BuildID() != "":
			found := r.lines.at(hit.Image, hit.Symbol, looked)
			a.line, a.pack = found.chain, found.result
		}
	} else if !r.opts.Label || a.image.Base() == 0 {
		a.looked = 0
	}
	return a
}

// place sets the address that is written (contract 4.1).
func (r *resolver) place(a *answer, q question, ip, looked uint64) {
	a.address, a.isRel = q.sent, q.form != formAbsolute
	isEBPF := q.how&useEBPF != 0
	if a.isRel && (isEBPF || q.lookedUp) || !a.isRel && r.opts.KeepAddresses {
		return
	}
	written := looked
	if isEBPF {
		written = ip
	}
	switch base := a.image.Base(); {
	case base != 0 && written >= base:
		a.address, a.isRel = written-base, true
	default: // there is no relative form
		a.address, a.isRel, a.bare = ip, false, true
	}
}

// look is one question's look-ups.
type look struct {
	*resolver
	image  *timeline.Image // nil for an absolute address
	during timeline.Interval
	span   timeline.Interval // the answer is the same for all intervals in it
}

// at looks an address up, and reports whether the same holds for every part of the interval.
func (l *look) at(addr uint64) (hit timeline.Hit, whole bool) {
	if l.image != nil {
		if !l.image.Contains(addr) { // but for the core kernel, another image can be there
			return timeline.Hit{Reason: timeline.ReasonUnresolved}, l.image.Origin == timeline.OriginKernel
		}
		return timeline.Hit{Image: l.image, Symbol: l.image.Lookup(addr)}, true
	}
	hit, span := l.snapshot.At(addr, l.during)
	l.span = l.span.And(span)
	return hit, span.Holds(l.during)
}

// find looks up what the address of a frame means, by its use (contract 2.2, 2.3), and
// returns the address that it found it at. ip is as it was sent.
func (l *look) find(q question, ip uint64) (hit timeline.Hit, looked uint64) {
	switch {
	case q.how&useEBPF != 0:
		ip++
	case q.lookedUp:
		own, _ := l.at(ip)
		return l.certain(own, q.how), ip
	}
	if q.how&useExact != 0 {
		own, _ := l.at(ip)
		return l.certain(own, q.how), ip
	}
	if q.how&useAfterThunk != 0 {
		if own, _ := l.at(ip); own.Symbol.Exists() && own.Symbol.Start == ip {
			return l.certain(own, q.how), ip
		}
	}
	before, whole := l.at(ip - 1)
	if !before.Symbol.Exists() && whole && before.Reason != timeline.ReasonUnobserved {
		// No code was there at any time. It may have been interrupted at the first byte of a function.
		if own, _ := l.at(ip); own.Symbol.Exists() && own.Symbol.Start == ip {
			return l.certain(own, q.how), ip
		}
	} else if l.isInterruptionUnknown() && before.Symbol.Exists() {
		if own, _ := l.at(ip); own.Image != before.Image || own.Symbol != before.Symbol {
			return timeline.Hit{Reason: timeline.ReasonUnresolved}, ip - 1
		}
	}
	return l.certain(before, q.how), ip - 1
}

// isInterruptionUnknown reports whether any frame may have been interrupted and be no caller:
// entry code and thunks are the core kernel's, which is not known.
func (r *resolver) isInterruptionUnknown() bool { return r.snapshot.Core() == nil && !r.opts.Gateway }

// certain returns what was found, or nothing if that is not certain or names nothing:
// trampolines that share their page need evidence, which is none where a program that is not
// known may have been called and not have its own stack frame yet, and code without a name
// owns its addresses and no more (contract 3.5).
func (l *look) certain(hit timeline.Hit, how use) timeline.Hit {
	switch image := hit.Image; {
	case image == nil || image.Text != nil:
		return hit
	case image.Name() == "",
		image.Yields() && l.marks.SharedTrampolines && (how&useAtPatch == 0 || how&useExact != 0 && l.snapshot.IsPartial()):
		return timeline.Hit{Reason: timeline.ReasonUnresolved}
	}
	return hit
}
