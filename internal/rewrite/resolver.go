package rewrite

import (
	"slices"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// resolver answers what an address was, for a use and a time, from a snapshot.
type resolver struct {
	begun    bool
	snapshot *symtab.Snapshot
	marks    *symtab.Landmarks
	opts     *Options
}

func (r *resolver) begin(s *symtab.Snapshot, opts *Options) {
	*r = resolver{begun: true, snapshot: s, marks: s.Landmarks(), opts: opts}
}

// byID returns the core kernel or module that has the ids of a mapping, nil if none has
// all of them. A file ID can be that of one load of a build, so it comes first.
func (r *resolver) byID(c *mappingContent) *symtab.Image {
	image, ok := r.snapshot.ByFileID(c.fileID)
	if c.fileID == "" {
		image, ok = r.snapshot.ByBuildID(c.buildID)
	}
	if !ok || !hasIDs(image, c) {
		return nil
	}
	return image
}

// hasIDs reports whether the ids of a mapping are those of an image.
func hasIDs(image *symtab.Image, c *mappingContent) bool {
	switch {
	case image.Text == nil:
		return c.buildID == "" && (c.fileID == buildid.SymbolFileID(image.Name()) || c.fileID == image.LoadedFileID())
	case c.buildID != "" && c.buildID != image.BuildID:
		return false
	}
	return c.fileID == "" || c.fileID == image.FileID || c.fileID == image.LoadedFileID()
}

// contradicts reports whether the ids of a mapping are those of another build than the
// absolute address of a frame lies in, or of none that is known (contract 2.1). image is
// what the address was, nil if that is not certain.
func (r *resolver) contradicts(c *mappingContent, image *symtab.Image) bool {
	switch {
	case !c.hasID():
		return false
	case image == nil:
		return !r.knows(c)
	}
	return !hasIDs(image, c)
}

// knows reports whether the ids of a mapping are those of an image that is there or in the
// history.
func (r *resolver) knows(c *mappingContent) bool {
	return r.byID(c) != nil || c.buildID == "" && r.snapshot.KnowsFunctionID(c.fileID)
}

// isEntry reports whether an address lies in entry code (contract 2.3).
func (r *resolver) isEntry(addr uint64) bool {
	return r.marks.Entry.Contains(addr) || r.marks.Fred.Contains(addr)
}

// decides reports whether what was entered from an address may be no caller: it lies in
// entry code or a thunk.
func (r *resolver) decides(addr uint64) bool { return r.isEntry(addr) || r.isThunk(addr) }

// decidesNear reports whether an address or one next to it decides.
func (r *resolver) decidesNear(addr uint64) bool {
	return r.decides(addr-1) || r.decides(addr) || r.decides(addr+1)
}

// lookedAsCaller returns the address in the core kernel that is looked up for a caller: that
// of the call, or ip where no symbol covers the byte before it but one begins there.
func (r *resolver) lookedAsCaller(ip uint64) uint64 {
	if core := r.snapshot.Core(); r.beginsSymbol(ip) && core.Lookup(ip-1).Image == nil {
		return ip
	}
	return ip - 1
}

// isThunk reports whether an address lies in an indirect or return thunk.
func (r *resolver) isThunk(addr uint64) bool {
	t := r.marks.Thunks
	if len(t) == 0 || addr < t[0].Start || addr >= t[len(t)-1].End {
		return false
	}
	return slices.ContainsFunc(t, func(thunk symtab.Range) bool { return thunk.Contains(addr) })
}

// beginsSymbol reports whether a symbol of the core kernel begins at an address.
func (r *resolver) beginsSymbol(addr uint64) bool {
	core := r.snapshot.Core()
	return core != nil && core.Contains(addr) && core.Lookup(addr).Start == addr
}

// isPatchSite reports whether ip is where a call from a function's patch site returns to,
// throughout an interval (contract 3.5): nothing but a trampoline is called from there.
func (r *resolver) isPatchSite(ip uint64, during symtab.Interval) bool {
	symbol := r.snapshot.At(ip-1, during).Symbol
	if m := symbol.Image; m == nil || m.Origin == symtab.OriginTrampoline || m.Origin == symtab.OriginOOL {
		return false // of no function
	}
	switch offset := ip - symbol.Start; r.marks.Arch {
	case "amd64": // call, or endbr64 and call
		return offset == 5 || offset == 9
	case "arm64": // mov x9, x30 and bl, or bti and these (arch/arm64/include/asm/ftrace.h)
		return offset == 8 || offset == 12
	}
	return false
}

// answer is what a frame is, for one use, at one time. Two answers are the same if they
// are equal, but for the outcome of those that say nothing; see same.
type answer struct {
	kind    answerKind
	outcome Outcome
	bare    bool // see placing
	isRel   bool // the address counts from the image's base
	line    int32

	image   *symtab.Image // answerOwned, answerNamed
	address uint64        // the location's
	looked  uint64        // an address in the symbol, or the one that was looked up
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

// same reports whether two answers are written alike.
func (a answer) same(b answer) bool {
	a.outcome = b.outcome
	return a == b
}

// origin returns the kind of code, OriginKernel if it is not known.
func (a *answer) origin() symtab.Origin {
	if a.image == nil {
		return symtab.OriginKernel
	}
	return a.image.Origin
}

var outcomeOf = [...]Outcome{
	symtab.ReasonNone:       OutcomeUnresolved,
	symtab.ReasonAmbiguous:  OutcomeAmbiguous,
	symtab.ReasonUnobserved: OutcomeUnobserved,
	symtab.ReasonUnresolved: OutcomeUnresolved,
}

// question is what is asked about a frame.
type question struct {
	*frame
	mapping *mapping
	how     use
}

// answer answers a question for an interval. span is an interval that holds that one; for
// all intervals in it, the answer is the same. It is empty if there is none.
func (r *resolver) answer(q question, during symtab.Interval) (a answer, span symtab.Interval) {
	c := &q.mapping.content
	switch {
	case q.how == useForeign || q.mapping.isGuest:
		return answer{kind: answerUntouched, outcome: OutcomeForeign}, symtab.Always
	case q.form == formNone && c.hasID() && !r.knows(c):
		return answer{kind: answerUntouched, outcome: OutcomeForeign}, symtab.Always
	case q.form == formNone:
		return answer{kind: answerTyped, outcome: OutcomeUnresolved}, symtab.Always
	}
	l := look{resolver: r, during: during, span: symtab.Always}
	ip := q.addr
	switch q.form {
	case formImage:
		l.image = q.image
	case formNamed:
		image, reason := r.snapshot.Named(q.mapping.module, during)
		if image == nil {
			return answer{kind: answerTyped, outcome: outcomeOf[reason]}, symtab.Interval{}
		}
		if l.span = during; !inKernelHalf(image.Base + q.sent) {
			return answer{kind: answerTyped, outcome: OutcomeUnresolved}, during
		}
		l.image, ip = image, image.Base+q.sent
	}
	hit, looked := l.find(q, ip)
	if q.form == formAbsolute && r.contradicts(c, hit.Image) {
		return answer{kind: answerUntouched, outcome: OutcomeForeign}, l.span
	}
	return r.write(q, &hit, ip, looked), l.span
}

// write returns the answer that is what was found.
func (r *resolver) write(q question, hit *symtab.Hit, ip, looked uint64) (a answer) {
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
	if hit.Symbol.Image != nil {
		a.kind, a.outcome, a.looked = answerNamed, OutcomeResolved, hit.Symbol.Start
		if lines := a.image.Lines; lines != nil {
			a.line = int32(lines.Find(uint32(looked - hit.Symbol.Start)))
		}
	} else if !r.opts.Label {
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
	switch base := a.image.OffsetBase(); {
	case written >= base:
		a.address, a.isRel = written-base, true
	default: // there is no relative form
		a.address, a.isRel, a.bare = ip, false, true
	}
}

// look is one question's look-ups.
type look struct {
	*resolver
	image  *symtab.Image // nil for an absolute address
	during symtab.Interval
	span   symtab.Interval // the answer is the same for all intervals in it
}

// at looks an address up.
func (l *look) at(addr uint64) symtab.Hit {
	if l.image != nil {
		if !l.image.Contains(addr) {
			return symtab.Hit{Reason: symtab.ReasonUnresolved}
		}
		return symtab.Hit{Image: l.image, Symbol: l.image.Lookup(addr)}
	}
	hit, span := l.snapshot.Around(addr, l.during)
	l.span.From, l.span.To = max(l.span.From, span.From), min(l.span.To, span.To)
	return hit
}

// find looks up what the address of a frame means, by its use (contract 2.2, 2.3), and
// returns the address that it found it at. ip is as it was sent.
func (l *look) find(q question, ip uint64) (hit symtab.Hit, looked uint64) {
	switch {
	case q.how&useEBPF != 0:
		ip++
	case q.lookedUp:
		return l.certain(l.at(ip), q.how), ip
	}
	if q.how&useExact != 0 {
		return l.certain(l.at(ip), q.how), ip
	}
	if q.how&useAfterThunk != 0 {
		if own := l.at(ip); own.Symbol.Image != nil && own.Symbol.Start == ip {
			return l.certain(own, q.how), ip
		}
	}
	before := l.at(ip - 1)
	if before.Symbol.Image == nil && before.Reason != symtab.ReasonAmbiguous && before.Reason != symtab.ReasonUnobserved {
		// It may have been interrupted at the first byte of a function.
		if own := l.at(ip); own.Symbol.Image != nil && own.Symbol.Start == ip {
			return l.certain(own, q.how), ip
		}
	}
	return l.certain(before, q.how), ip - 1
}

// certain returns what was found, or nothing if that is not certain or names nothing:
// trampolines that share their page need evidence, and code without a name owns its
// addresses and no more (contract 3.5).
func (l *look) certain(hit symtab.Hit, how use) symtab.Hit {
	switch image := hit.Image; {
	case image == nil || image.Text != nil:
		return hit
	case image.Name() == "",
		image.IsLong() && l.marks.SharedTrampolines && how&useAtPatch == 0:
		return symtab.Hit{Reason: symtab.ReasonUnresolved}
	}
	return hit
}
