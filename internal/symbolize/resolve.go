// SPDX-License-Identifier: Apache-2.0

package symbolize

import (
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// An Outcome says what became of a frame. Every frame has one.
type Outcome uint8

// The outcomes.
const (
	Resolved   Outcome = iota
	Unresolved         // no symbol covers its address
	Ambiguous          // several images had its address at about that time
	Unobserved         // code may have been loaded or unloaded unseen at that time
	Foreign            // it belongs to another kernel: of another host, boot, build or guest
	NoPack             // a gateway has no pack of its build, or does not know its role
)

// outcomeOf returns the outcome that stands for a reason of a lookup. An image without a symbol at the address
// has none.
var outcomeOf = [...]Outcome{
	timeline.ReasonNone:       Unresolved,
	timeline.ReasonAmbiguous:  Ambiguous,
	timeline.ReasonUnobserved: Unobserved,
	timeline.ReasonUnresolved: Unresolved,
}

// An Answer says what a frame is, in one role, at one time. Answers are comparable.
type Answer struct {
	Outcome Outcome
	Image   *timeline.Image // nil if it is not known
	Symbol  symtab.Symbol   // the zero value unless the outcome is Resolved
	Address uint64          // the address in memory at which Image and Symbol were found
	OrNext  bool            // it may as well be the next address, which lies in the same symbol: the frame may have been interrupted
}

// Resolve identifies a frame in a role, throughout an interval. For all intervals in same, the answer is
// the same; same is empty if parts of the interval have other answers. The role must not be Unknown; see
// [Role.Possible]. Resolve does not allocate.
func (k *Kernel) Resolve(f *Frame, r Role, during timeline.Interval) (answer Answer, same timeline.Interval) {
	switch {
	case r.Producer == OtherHost:
		return Answer{Outcome: Foreign}, timeline.Always
	case f.Mapping.name.isGuest && (!k.gateway || k.hasPack(f)):
		return Answer{Outcome: Foreign}, timeline.Always
	case f.form == formNone:
		return Answer{Outcome: k.withoutForm(f)}, timeline.Always
	}
	l := k.newLookup(f, during)
	if f.form == formInModule && !l.findModule() {
		return Answer{Outcome: outcomeOf[l.reason]}, l.same
	}
	hit, addr := l.find(r)
	hit = l.certain(hit, r)
	if f.form == formAbsolute && k.isForeign(f.Mapping, hit.Image) {
		return Answer{Outcome: Foreign}, l.same
	}
	answer = Answer{Outcome: outcomeOf[hit.Reason], Image: hit.Image, Symbol: hit.Symbol, Address: addr}
	if hit.Symbol.Exists() {
		answer.Outcome = Resolved
		answer.OrNext = r.Kind == Interruptible && addr != f.ip(r.Producer, l.image)
	}
	return answer, l.same
}

// withoutForm returns what became of a frame whose address means nothing.
func (k *Kernel) withoutForm(f *Frame) Outcome {
	switch {
	case k.gateway && !k.hasPack(f):
		return NoPack
	case !k.gateway && f.Mapping.hasID() && !k.isKnown(f.Mapping):
		return Foreign
	}
	return Unresolved
}

// A lookup looks up one frame for one interval.
type lookup struct {
	kernel *Kernel
	frame  *Frame
	image  *timeline.Image   // the image that a relative address counts from, nil if it is not known
	reason timeline.Reason   // why it is not known
	during timeline.Interval // for which the frame is looked up
	same   timeline.Interval // all that was found is the same for every interval in it
}

// newLookup begins to look up a frame. One that counts from a module is not known before findModule.
func (k *Kernel) newLookup(f *Frame, during timeline.Interval) lookup {
	return lookup{kernel: k, frame: f, image: f.image(), during: during, same: timeline.Always}
}

// findModule finds the module that a frame counts from, and reports whether it is known. Its name stands for the load that
// lasted the whole interval (see contract 2.1).
func (l *lookup) findModule() (ok bool) {
	l.image, l.reason = l.kernel.Snapshot().Module(l.frame.Mapping.name.module, l.during)
	switch {
	case l.image == nil:
		l.same = timeline.Interval{}
	case l.image.Base() == 0:
		l.image, l.reason, l.same = nil, timeline.ReasonUnresolved, l.during
	default:
		l.same = l.during
	}
	return l.image != nil
}

// at looks up an address. isWhole says that the same holds for every part of the interval.
func (l *lookup) at(addr uint64) (hit timeline.Hit, isWhole bool) {
	last := &l.kernel.last
	switch {
	case last.Symbol.Contains(addr) && last.Image.Contains(addr) && (l.image == nil || l.image == last.Image):
		return *last, true
	case l.image == nil:
		var same timeline.Interval
		hit, same = l.kernel.Snapshot().At(addr, l.during)
		l.same, isWhole = l.same.And(same), same.Holds(l.during)
	case !l.image.Contains(addr): // next to a module, another image can have the address
		return timeline.Hit{Reason: timeline.ReasonUnresolved}, l.image.Origin == timeline.OriginKernel
	default:
		hit, isWhole = timeline.Hit{Image: l.image, Symbol: l.image.Lookup(addr)}, true
	}
	if hit.Symbol.Exists() && hit.Image == l.kernel.Snapshot().Core() {
		*last = hit
	}
	return hit, isWhole
}
