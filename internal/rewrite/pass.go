// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"math/bits"
	"reflect"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// pass is the work on one message. Its memory is used again for the next.
type pass struct {
	stackWalk
	s splitter

	order     byAddress
	functions []int32  // by frame: that of its symbol in the core kernel, or ^ where its lines are kept; 0 for none; see resolveCore
	answers   []answer // those of the other frames
	w         writer
}

func (p *pass) begin(opts *Options, given Known) {
	p.opts = opts
	p.counts = Counts{}
	if opts.Gateway { // packs are of all times
		given.Clock = nil
	}
	p.r.begin(&given, opts)
	p.w = writer{m: &p.m, opts: opts, packs: &p.r.lines, lines: p.w.lines[:0], kept: p.w.kept[:0], placings: p.w.placings}
	p.times = times{m: &p.m, given: given, history: int64(opts.History), profiles: p.times.profiles[:0]}
}

// end forgets the message, but keeps the memory.
func (p *pass) end() {
	clear(p.frames)
	clear(p.answers)
	p.frames, p.answers = p.frames[:0], p.answers[:0]
	p.times.given = Known{}
	p.w = writer{lines: p.w.lines, kept: p.w.kept, placings: p.w.placings.kept()}
	p.m.end()
	p.s.end()
	p.r.end()
	p.opts = nil
}

// bytes returns the size of the working memory.
func (p *pass) bytes() int {
	return bytesOf(p.frames) + bytesOf(p.frameOf) + bytesOf(p.marks) + bytesOf(p.stackUsers) + bytesOf(p.functions) +
		bytesOf(p.answers) + bytesOf(p.order.keys) + bytesOf(p.order.next) + bytesOf(p.w.kept) + p.w.bytes() +
		p.m.bytes() + p.r.lines.bytes() + p.s.bytes()
}

// bytesOf returns the size of a slice's memory.
func bytesOf[T any](s []T) int { return cap(s) * int(reflect.TypeFor[T]().Size()) }

// run rewrites a message and returns the result.
func (p *pass) run(pd pprofile.Profiles) pprofile.Profiles {
	p.m.begin(pd)
	if !p.find() {
		return pd
	}
	used, valid := false, p.readUsers() && p.m.isValid()
	if valid {
		p.r.load()
		p.place()
		used, valid = p.findUses()
	}
	switch {
	case !valid:
		p.counts = Counts{}
		p.counts[OutcomeInvalid][timeline.OriginKernel] = len(p.frames)
		return pd
	case !used:
		p.times.clockOff = 0 // its times do not matter
		return pd
	}
	own := pd
	if pd.IsReadOnly() {
		own = copyOf(pd)
		p.m.dictionary = newDictionary(own)
	}
	p.resolve()
	p.writeResults()
	p.s.run(p)
	if p.w.wrote {
		return own
	}
	return pd
}

func copyOf(pd pprofile.Profiles) pprofile.Profiles {
	c := pprofile.NewProfiles()
	pd.CopyTo(c)
	return c
}

// count counts what became of a frame, unless that was counted as it came.
func (p *pass) count(f *frame, a *answer) {
	if f.onlyLines {
		return
	}
	p.counts[f.outcome(a)][a.origin()]++
}

// outcome returns what a frame counts as.
func (f *frame) outcome(a *answer) Outcome {
	if f.named && a.kind != answerNamed && a.kind != answerUntouched {
		return OutcomeNamed
	}
	return a.outcome
}

// question returns what is asked about a frame, but for the use.
func (p *pass) question(f *frame) question {
	return question{frame: f, mapping: p.m.maps.at(&p.m, f.mapping)}
}

// resolve looks the candidates up. Those that have more than one answer go to the splitter.
func (p *pass) resolve() {
	p.s.begin(len(p.frames))
	p.functions = zeroed(p.functions, len(p.frames))
	core := p.r.snapshot.Core()
	for i := range p.frames {
		f := &p.frames[i]
		if !f.selected || f.uses == 0 {
			continue
		}
		if looked, ok := p.lookedInCore(f, core); ok {
			p.order.add(uint32(looked-core.Start), i)
		} else {
			p.resolveFrame(i)
		}
	}
	p.resolveCore(core)
}

func (p *pass) resolveFrame(i int) {
	f := &p.frames[i]
	a, settled := p.settle(f)
	if !settled {
		p.s.add(int32(i))
		return
	}
	p.count(f, &a)
	p.answers = append(p.answers, a)
	f.answer = int32(len(p.answers))
}

// settle returns the answer for a frame, if it is the same for all uses and times.
func (p *pass) settle(f *frame) (a answer, settled bool) {
	q := p.question(f)
	for uses := f.uses; uses != 0; uses &= uses - 1 {
		q.how = use(bits.TrailingZeros32(uint32(uses)))
		during := timeline.Always
		if !p.r.isTimeless(q) {
			during = p.times.whole()
		}
		b, span := p.r.answer(q, during)
		if !span.Holds(during) || uses != f.uses && a.written != b.written {
			return answer{}, false
		}
		a = b
	}
	return a, true
}

// isTimeless reports whether the answer to a question does not depend on the time.
func (r *resolver) isTimeless(q question) bool {
	core := r.snapshot.Core()
	return q.how == useForeign || q.form == formNone || q.form == formImage ||
		core != nil && core.Contains(q.addr) && core.Contains(q.addr-1)
}

// resolveCore is what resolve does for nearly all frames: those of lookedInCore. It takes
// them in the order of their addresses.
func (p *pass) resolveCore(core *timeline.Image) {
	var last symtab.Symbol
	var function int32 // that has its name, 0 while none needed it
	packed := p.opts.DebugInfo && core != nil && core.BuildID() != ""
	p.order.sorted(func(offset uint32, i int) {
		looked := core.Start + uint64(offset)
		if looked-last.Start >= last.End()-last.Start {
			symbol := core.Lookup(looked)
			if !symbol.Exists() {
				p.resolveFrame(i)
				return
			}
			last, function = symbol, 0
		}
		p.counts[OutcomeResolved][timeline.OriginKernel]++
		if packed {
			found := p.r.lines.at(core, last, looked)
			p.w.gave[found.result]++
			if found.chain != noChain {
				p.functions[i] = ^p.w.keepChain(found.chain)
				return
			}
		}
		if function == 0 {
			function = p.m.funcs.intern(&p.m, core.SymbolName(last), "")
		}
		p.functions[i] = function
	})
}

// lookedInCore returns the address in the core kernel that is looked up for a frame that
// came absolute, without a name and has one use. It reports false for others.
func (p *pass) lookedInCore(f *frame, core *timeline.Image) (looked uint64, ok bool) {
	// What is looked up or written can be below the address that was sent.
	if core == nil || f.named || f.form != formAbsolute || f.addr <= core.Base() || p.m.attributes.used[attrIsFolded] {
		return 0, false
	}
	if f.mapping != 0 || !p.m.maps.hasNone {
		if mp := p.m.maps.at(&p.m, f.mapping); mp.isGuest || p.r.contradicts(&mp.content, core) {
			return 0, false
		}
	}
	looked, ok = f.plainLooked()
	return looked, ok && core.Contains(looked)
}

// plainLooked returns the address that is looked up for a frame with an absolute address
// and one use, if that is plain.
func (f *frame) plainLooked() (looked uint64, ok bool) {
	switch f.uses {
	case 1 << 0: // a caller
		return f.addr - 1, true
	case 1 << useExact, 1 << useEBPF: // a caller of the eBPF profiler's: its address is in the call
		return f.addr, true
	case 1 << (useExact | useEBPF):
		return f.addr + 1, true
	}
	return 0, false
}
