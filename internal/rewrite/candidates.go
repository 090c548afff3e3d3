package rewrite

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// frame is a location that is kernel code.
type frame struct {
	loc     int32
	mapping int32  // that it came with
	uses    useSet // by the stacks that samples have
	answer  int32  // position + 1 of its answer, 0 for none

	form     form
	selected bool // it is a candidate
	named    bool // it came with a name
	untyped  bool // it has no frame type
	lookedUp bool // its address is in looked-up form, if the eBPF profiler did not send it
	shared   bool // it can be in a trampoline that shares its page with other code
	atPatch  bool // as a caller, it is at a patch site; valid if
	patch    bool // that was asked

	sent  uint64        // the address as it came
	addr  uint64        // the absolute address that was sent, but for formNone and formNamed
	image *symtab.Image // formImage: the one that the mapping identifies
}

// form says how the address of a frame is given (contract 2).
type form uint8

const (
	formNone     form = iota // no address is known
	formAbsolute             // as it is
	formImage                // counts from the base of an image that the mapping identifies
	formNamed                // counts from the base of a module that only the time tells
)

// findFrames lists the kernel frames of the message, counts those that are no candidates,
// as they came with a name, and reports whether there are others (contract 1.1, 1.2).
func (p *pass) findFrames() (found bool) {
	n := p.m.locations.Len()
	if n == 0 {
		return false
	}
	p.m.attributes.read(&p.m.dictionary)
	p.marks = zeroed(p.marks, n)
	for i := range n {
		loc := p.m.locations.At(i)
		frameType := p.frameType(loc.AttributeIndices())
		if frameType == attrOtherFrame || frameType == attrOther && !p.isKernel(loc) {
			continue
		}
		named := p.m.funcs.isNamed(&p.m.dictionary, loc.Lines())
		f := frame{
			loc: int32(i), mapping: loc.MappingIndex(), sent: loc.Address(),
			untyped: frameType == attrOther, named: named, selected: !named || p.opts.All,
		}
		p.frames = append(p.frames, f)
		if f.selected {
			found = true
			p.marks[i] = markSelected
		} else {
			p.counts[OutcomeNamed][symtab.OriginKernel]++
		}
	}
	return found
}

// frameType returns the kind of the frame type among attributes, attrOther if there is none.
func (p *pass) frameType(indices pcommon.Int32Slice) attribute {
	for i := range indices.Len() {
		if kind := p.m.attributes.kind(indices.At(i)); kind == attrKernelFrame || kind == attrOtherFrame {
			return kind
		}
	}
	return attrOther
}

// isKernel reports whether a location without frame type is kernel code (contract 1.1b, c).
func (p *pass) isKernel(loc pprofile.Location) bool {
	mp := p.m.maps.at(&p.m, loc.MappingIndex())
	isKernel := inKernelHalf(loc.Address()) && !isSpecial(loc.Address())
	if mp.vague && !isKernel {
		return false
	}
	switch {
	case mp.bracketed:
		return p.known().snapshot.IsModule(mp.module)
	case mp.content.fileName != "":
		return mp.isKernel
	}
	return isKernel
}

// inKernelHalf reports whether an address is one of the kernel, on x86-64 and
// arm64.
func inKernelHalf(addr uint64) bool { return addr>>63 != 0 }

// isSpecial reports whether an address in the kernel half is not the kernel's:
// the vsyscall page of x86-64 is user code, and perf marks the parts of a stack
// with numbers that lie in the last page (PERF_CONTEXT_MAX of
// include/uapi/linux/perf_event.h).
func isSpecial(addr uint64) bool {
	const (
		page     = 1 << 12
		vsyscall = 0xffffffffff600000
	)
	return addr >= 1<<64-page || vsyscall <= addr && addr < vsyscall+page
}

// placeFrames finds out what the addresses of the frames mean (contract 2), and makes
// them found by their locations.
func (p *pass) placeFrames() {
	p.frameOf = zeroed(p.frameOf, p.m.locations.Len())
	for i := range p.frames {
		f := &p.frames[i]
		p.frameOf[f.loc] = int32(i + 1)
		p.placeFrame(f)
		f.shared = p.mayShare(f)
		if f.shared || f.addr != 0 && p.r.decidesNear(f.addr) {
			p.marks[f.loc] |= markSpecial
		}
	}
}

// mayShare reports whether a candidate can be in a trampoline that shares its page with
// other code, at any address that may be looked up for it.
func (p *pass) mayShare(f *frame) bool {
	if !p.r.marks.SharedTrampolines || !f.selected || f.form != formAbsolute {
		return false
	}
	core := p.r.snapshot.Core()
	return (core == nil || !core.Contains(f.addr)) && p.r.snapshot.MayBeLong(f.addr-1, f.addr+2, p.times.whole())
}

func (p *pass) placeFrame(f *frame) {
	if inKernelHalf(f.sent) {
		f.form, f.addr = formAbsolute, f.sent
		return
	}
	mp := p.m.maps.at(&p.m, f.mapping)
	switch image, named := p.identify(mp); {
	case image != nil && inKernelHalf(image.Base+f.sent):
		f.form, f.image, f.addr = formImage, image, image.Base+f.sent
	case named:
		f.form = formNamed
	}
	f.lookedUp = mp.content.isRelative()
}

// identify returns the core kernel or module that a mapping identifies by build id, else
// file ID, else the core kernel's name; or that it is one of the modules of a name.
func (p *pass) identify(mp *mapping) (image *symtab.Image, named bool) {
	r := p.known()
	switch c := &mp.content; {
	case mp.vague:
		return nil, false
	case c.hasID():
		return r.byID(c), false
	case mp.isGuest || mp.module == "":
		return nil, false
	case mp.module == symtab.KernelName:
		return r.snapshot.Core(), false
	}
	return nil, true
}

// known returns what the sources know, which is asked for once for a message.
func (p *pass) known() *resolver {
	if !p.r.begun {
		var snapshot *symtab.Snapshot
		if p.given.Snapshot != nil {
			snapshot = p.given.Snapshot()
		}
		p.r.begin(snapshot, p.opts)
	}
	return &p.r
}
