package rewrite

import "github.com/kernelsym/kernelsym/internal/symtab"

// frame is a candidate and what its address means.
type frame struct {
	candidate
	target target
}

// rewrite looks the candidates up and writes what it finds. Frames for which the
// answer depends on who asks are left to rewriteSplit.
func (p *pass) rewrite() {
	users := p.readUsers()
	if users == 1<<userForeign {
		p.counts[OutcomeForeign][symtab.OriginKernel] += len(p.candidates)
		return
	}
	p.findDangling()
	if !p.dangling.canWrite(len(p.candidates)) {
		p.counts[OutcomeInvalid][symtab.OriginKernel] += len(p.candidates)
		return
	}
	p.readFrames()
	for _, i := range p.byAddress() {
		f := &p.frames[i]
		if a, same, timed := p.sameForAll(f.target, users); same {
			p.write(p.locTable.At(int(f.loc)), f, a)
		} else {
			p.split.add(f, timed)
		}
	}
	if len(p.split.frames) > 0 {
		p.rewriteSplit(users)
	}
}

// readFrames makes frames of the candidates whose address means something, and
// counts the others.
func (p *pass) readFrames() {
	for _, c := range p.candidates {
		loc := p.locTable.At(int(c.loc))
		m := p.mappingAt(loc.MappingIndex())
		switch {
		case m.invalid:
			p.count(OutcomeInvalid, owner{})
			continue
		case m.isGuest, m.foreign && p.knowsBuild():
			p.count(OutcomeForeign, owner{})
			continue
		}
		if t := p.target(loc, m); t.ok && !m.foreign {
			p.frames = append(p.frames, frame{candidate: c, target: t})
		} else if !c.named {
			p.count(OutcomeUnresolved, owner{})
		}
	}
}

// knowsBuild reports whether the build id of the core kernel is known. While it
// is not, any build id may be the kernel's own.
func (p *pass) knowsBuild() bool {
	core, _, ok := p.known.Snapshot.ModuleByName(symtab.KernelName)
	return ok && core.BuildID != ""
}

// byAddress returns the positions of the frames in the order of their addresses,
// so that what is looked up one after the other lies side by side in memory.
// Only the lower half of an address counts: the order is of no other use, and
// kernel code spans little more.
//
// It is a radix sort, least significant digit first: comparing would take as
// long as the disorder costs.
func (p *pass) byAddress() []int32 {
	const (
		digitBits = 11
		digits    = 3
		mask      = 1<<digitBits - 1
	)
	n := len(p.frames)
	p.order, p.orderNext = resized(p.order, n), resized(p.orderNext, n)
	var counts [digits][mask + 1]int32
	for i := range p.frames {
		p.order[i] = int32(i)
		addr := p.frames[i].target.addr
		for d := range counts {
			counts[d][addr>>(d*digitBits)&mask]++
		}
	}
	for d := range counts {
		at := int32(0)
		for digit, count := range counts[d] {
			counts[d][digit] = at
			at += count
		}
		for _, i := range p.order {
			digit := p.frames[i].target.addr >> (d * digitBits) & mask
			p.orderNext[counts[d][digit]] = i
			counts[d][digit]++
		}
		p.order, p.orderNext = p.orderNext, p.order
	}
	return p.order
}
