// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"math/bits"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/scratch"
	"github.com/kernelsym/kernelsym/internal/symbolize"
)

// producerSet is a set of producers, by bit.
type producerSet uint8

func (s producerSet) has(p symbolize.Producer) bool { return s&(1<<p) != 0 }

// roleSet is a set of roles without a caller, by the bit of their number. The highest bit is isSpecial.
type roleSet uint16

const _ = uint(16 - 1 - symbolize.NumPlainRoles) // they fit

// isSpecial marks the set of a location whose frame is not ordinary (see [symbolize.Frame.IsOrdinary]) or varies.
const isSpecial roleSet = 1 << symbolize.NumPlainRoles

// questions ask for the code of a frame in a role. Each is asked once.
type questions struct {
	all        []question
	callers    []symbolize.Role             // the roles that have a caller
	withCaller map[withCaller]questionIndex // the questions for these roles
}

// Questions are kept small because resolve iterates over all of them.
type question struct {
	frame frameIndex
	role  int32 // the role's number; for a role with a caller, its position in callers, behind all numbers
}

// withCaller is a question for a role that has a caller.
type withCaller struct {
	frame frameIndex
	role  symbolize.Role
}

func (q *questions) close() {
	clear(q.callers)
	clear(q.withCaller)
	q.all, q.callers = q.all[:0], q.callers[:0]
}

func (q *questions) roleOf(is *question) symbolize.Role {
	if is.role < int32(symbolize.NumPlainRoles) {
		return symbolize.RoleNumber(int(is.role))
	}
	return q.callers[is.role-int32(symbolize.NumPlainRoles)]
}

// walkStacks finds the roles in which the stacks of samples have the frames, and lists the questions.
func (p *pass) walkStacks() {
	p.readProducers()
	for stack, producers := range p.stackProducers {
		for producer := range symbolize.Producer(symbolize.NumProducers) {
			if producers.has(producer) && stack < p.message.Stacks.Len() {
				p.noteRoles(int32(stack), producer)
			}
		}
	}
	p.listQuestions()
}

// readProducers finds the producer of each profile, and the producers of the samples that have each stack.
func (p *pass) readProducers() {
	var isForeign []bool
	if p.opts.IsForeign != nil && !p.opts.Gateway {
		for _, rp := range p.message.Profiles.ResourceProfiles().All() {
			isForeign = append(isForeign, p.opts.IsForeign(rp.Resource()))
		}
	}
	p.producers = p.producers[:0]
	p.stackProducers = scratch.Zeroed(p.stackProducers, max(1, p.message.Stacks.Len()))
	for of := range p.message.EachProfile() {
		producer := symbolize.ProducerOf(of.Scope)
		switch {
		case isForeign != nil && isForeign[of.Resource]:
			producer = symbolize.OtherHost
		case p.times.precedesBoot(of.Profile):
			producer = symbolize.OtherHost
			p.times.clockOff++ // or its clock is wrong
		}
		p.producers = append(p.producers, producer)
		p.addProducer(of.Profile.Samples(), producer)
	}
}

func (p *pass) addProducer(samples pprofile.SampleSlice, producer symbolize.Producer) {
	for i := range samples.Len() {
		p.stackProducers[samples.At(i).StackIndex()] |= 1 << producer
	}
}

// noteRoles notes the roles in which a stack has the frames. A location without a frame passes like an ordinary frame: it
// decides no role either, and the role that is noted for it is never read.
func (p *pass) noteRoles(stack int32, producer symbolize.Producer) {
	indices := p.message.Stacks.At(stack)
	walk := p.kernel.Walk(producer)
	for i := 0; i < len(indices); i++ {
		roles := &p.roles[indices[i]]
		if *roles&isSpecial != 0 {
			if frame, role := p.step(&walk, indices, i); frame != noFrame {
				p.noteRole(frame, role)
			}
			continue
		}
		*roles |= 1 << walk.NextOrdinary().Number()
		following := roleSet(1) << walk.NextOrdinary().Number() // of all ordinary frames up to the next special one
		for ; i+1 < len(indices) && p.roles[indices[i+1]]&isSpecial == 0; i++ {
			p.roles[indices[i+1]] |= following
		}
	}
}

// walkSpecial calls visit for each selected special frame of a stack, with its position, from the leaf on.
func (p *pass) walkSpecial(stack int32, producer symbolize.Producer, visit func(position int32, frame frameIndex, role symbolize.Role)) {
	indices := p.message.Stacks.At(stack)
	walk := p.kernel.Walk(producer)
	for i, location := range indices {
		if p.roles[location]&isSpecial == 0 {
			walk.NextOrdinary()
			continue
		}
		if frame, role := p.step(&walk, indices, i); frame != noFrame {
			visit(int32(i), frame, role)
		}
	}
}

// step passes the special frame at a position of a stack. It returns the frame and its role, noFrame if it is not
// selected.
func (p *pass) step(walk *symbolize.Walk, stack []int32, position int) (frame frameIndex, role symbolize.Role) {
	frame = p.frameOf[stack[position]]
	f := &p.frames[frame]
	var caller *symbolize.Frame
	if f.code.NeedsCaller() && position+1 < len(stack) {
		caller = p.codeAt(stack[position+1])
	}
	role = walk.Next(&f.code, caller)
	if !f.selected {
		return noFrame, role
	}
	return frame, role
}

// codeAt returns the frame at a location, nil if that is no kernel code.
func (p *pass) codeAt(location int32) *symbolize.Frame {
	if at := p.frameOf[location]; at != noFrame {
		return &p.frames[at].code
	}
	return nil
}

func (p *pass) noteRole(frame frameIndex, role symbolize.Role) {
	if role.Caller == nil {
		p.roles[p.frames[frame].location] |= 1 << role.Number()
		return
	}
	if p.questions.withCaller == nil {
		p.questions.withCaller = make(map[withCaller]questionIndex)
	}
	q := withCaller{frame, role}
	if _, ok := p.questions.withCaller[q]; !ok {
		p.questions.withCaller[q] = questionIndex(len(p.questions.all))
		p.questions.all = append(p.questions.all, question{frame, int32(symbolize.NumPlainRoles + len(p.questions.callers))})
		p.questions.callers = append(p.questions.callers, role)
	}
}

// listQuestions adds the questions for roles without a caller, in the order of addresses, so that successive lookups touch
// neighboring memory.
func (p *pass) listQuestions() {
	for _, item := range p.sorter.sorted(len(p.frames), func(i int) uint64 { return p.frames[i].code.Address }) {
		f := &p.frames[item.position]
		f.firstQuestion = questionIndex(len(p.questions.all))
		if !f.selected {
			continue
		}
		for roles := p.rolesOf(f); roles != 0; roles &= roles - 1 {
			p.questions.all = append(p.questions.all, question{frameIndex(item.position), int32(bits.TrailingZeros16(uint16(roles)))})
		}
	}
}

// rolesOf returns the roles without a caller in which stacks have a frame.
func (p *pass) rolesOf(f *frame) roleSet { return p.roles[f.location] &^ isSpecial }

// questionOf returns the question about a frame in a role.
func (p *pass) questionOf(frame frameIndex, role symbolize.Role) questionIndex {
	if role.Caller != nil {
		return p.questions.withCaller[withCaller{frame, role}]
	}
	f := &p.frames[frame]
	before := p.rolesOf(f) & (1<<role.Number() - 1)
	return f.firstQuestion + questionIndex(bits.OnesCount16(uint16(before)))
}
