package rewrite

import "go.opentelemetry.io/collector/pdata/pprofile"

// variantFor returns the variant of a frame that has its answer in a role, at some
// time if the frame is timed.
func (p *pass) variantFor(f *splitFrame, r role, at *when) int32 {
	if !f.timed {
		at = nil
	}
	last := &f.last[r]
	passing := at == &p.times.current // the next time it is another
	if !passing && last.variant > 0 && last.at == at {
		return last.variant - 1
	}
	v := p.split.variantWith(f, p.answer(f.target, r, at), r)
	if !passing {
		*last = variantAt{at, v + 1}
	}
	return v
}

// variantAt is a variant, + 1, at a time; 0 for none.
type variantAt struct {
	at      *when
	variant int32
}

// fewVariants is the number of variants up to which a frame's are looked through.
const fewVariants = 8

func (sp *split) variantWith(f *splitFrame, a answer, r role) int32 {
	if f.several > fewVariants {
		if v, ok := sp.byAnswer[frameAnswer{f.loc, a}]; ok {
			sp.variants[v].role = min(sp.variants[v].role, r)
			return v
		}
	} else {
		for v := f.first; v >= 0; v = sp.variants[v].next {
			if sp.variants[v].answer == a {
				sp.variants[v].role = min(sp.variants[v].role, r)
				return v
			}
		}
	}
	at := int32(len(sp.variants))
	sp.variants = append(sp.variants, variant{answer: a, role: r, loc: f.loc, next: -1})
	sp.link(f, at)
	if f.several >= fewVariants {
		sp.index(f, at)
	}
	return at
}

// link makes a variant the last of a frame's.
func (sp *split) link(f *splitFrame, v int32) {
	sp.variants[v].next = -1
	if f.first < 0 {
		f.first = v
	} else {
		sp.variants[f.end].next = v
	}
	f.end = v
	f.several++
}

// index makes a variant found by its answer, and those before it when they become
// many.
func (sp *split) index(f *splitFrame, at int32) {
	if sp.byAnswer == nil {
		sp.byAnswer = make(map[frameAnswer]int32)
	}
	from := at
	if f.several == fewVariants {
		from = f.first
	}
	for v := from; v >= 0; v = sp.variants[v].next {
		sp.byAnswer[frameAnswer{f.loc, sp.variants[v].answer}] = v
	}
}

// writeFirst writes the variant that serves the first role into the frame's
// location, and reports whether there are others.
func (p *pass) writeFirst(f *splitFrame) (several bool) {
	sp := &p.split
	if f.first < 0 { // in no stack of a sample
		var at *when
		if f.timed {
			at = p.wholeSpan()
		}
		p.variantFor(f, roleLeaf, at)
	}
	first := f.first
	for v := sp.variants[first].next; v >= 0; v = sp.variants[v].next {
		if sp.variants[v].role < sp.variants[first].role {
			first = v
		}
	}
	loc := p.locTable.At(int(f.loc))
	if sp.variants[f.first].next >= 0 {
		several = true
		f.original = pprofile.NewLocation()
		loc.CopyTo(f.original)
		sp.toFront(f, first)
	}
	p.write(loc, f.frame, sp.variants[first].answer)
	return several
}

// toFront makes a variant the first of its frame's.
func (sp *split) toFront(f *splitFrame, first int32) {
	if f.first == first {
		return
	}
	link := &f.first
	for *link != first {
		link = &sp.variants[*link].next
	}
	*link = sp.variants[first].next
	sp.variants[first].next = f.first
	f.first = first
}

// writeOthers writes the further variants of a frame into copies of what it was
// before.
func (p *pass) writeOthers(f *splitFrame) {
	for v := p.split.variants[f.first].next; v >= 0; v = p.split.variants[v].next {
		p.split.variants[v].loc = p.copyFor(f, p.split.variants[v].answer)
	}
}

// copyFor returns the index of a location that is the original with the answer
// written into it: the frame's own, if the answer makes no difference, or
// another, which is appended if there is none yet.
func (p *pass) copyFor(f *splitFrame, a answer) int32 {
	loc := pprofile.NewLocation()
	f.original.CopyTo(loc)
	p.write(loc, f.frame, a)
	if p.locTable.At(int(f.loc)).Equal(loc) {
		return f.loc
	}
	if !p.split.locations.built {
		p.indexLocations()
	}
	hash := hashLocation(loc)
	at, ok := p.split.locations.find(hash, p.isLocation(loc))
	if !ok {
		at = int32(p.locTable.Len())
		loc.MoveTo(p.locTable.AppendEmpty())
		p.split.locations.addNew(hash, at)
	}
	return at
}
