package rewrite

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// frame is a location that is kernel code.
type frame struct {
	loc     int32
	mapping int32  // that it came with
	uses    useSet // by the stacks that samples have

	form     form
	selected bool // it is a candidate
	named    bool // it came with a name
	untyped  bool // it has no frame type
	lookedUp bool // its address is in looked-up form, if the eBPF profiler did not send it
	atPatch  bool // as a caller, it is at a patch site; valid if
	patch    bool // that was asked

	addr  uint64        // the absolute address that was sent, but for formNone and formNamed
	image *symtab.Image // formImage: the one that the mapping identifies

	state  resultState
	result int32 // see resultState
}

// resultState says what is written into a frame, once it was looked up.
type resultState uint8

const (
	resultNone   resultState = iota // nothing: not a candidate, or left to the splitter
	resultCore                      // a symbol of the core kernel; result is the function
	resultAnswer                    // anything else; result is the position of the answer
)

// form says how the address of a frame is given (contract 2).
type form uint8

const (
	formNone     form = iota // no address is known
	formAbsolute             // as it is
	formImage                // counts from the base of an image that the mapping identifies
	formNamed                // counts from the base of a module that only the time tells
)

// findFrames lists the kernel frames of the message from the first candidate on, with those
// before it, and reports whether there is one (contract 1.1, 1.2). Without one, it only
// counts the frames that came with a name.
func (p *pass) findFrames() (found bool) {
	n := p.m.locations.Len()
	if n == 0 {
		return false
	}
	p.m.attributes.read(&p.m.dictionary)
	kinds := p.m.attributes.kinds
	for i := 0; i < n; i++ {
		indices := p.m.locations.At(i).AttributeIndices()
		if indices.Len() == 1 { // nearly all have just their frame type
			at := uint(uint32(indices.At(0)))
			if at < uint(len(kinds)) && kinds[at] == attrOtherFrame {
				continue
			}
		}
		f, ok := p.frameAt(int32(i))
		switch {
		case !ok:
		case found:
			p.frames = append(p.frames, f)
		case f.selected: // the first one: those before it decide what it was entered from
			found, i = true, -1
			p.counts = Counts{}
		}
		if ok && !f.selected {
			p.counts[OutcomeNamed][symtab.OriginKernel]++
		}
	}
	return found
}

// frameAt returns the frame that a location is, false if it is no kernel code.
func (p *pass) frameAt(i int32) (f frame, ok bool) {
	loc := p.m.locations.At(int(i))
	indices := loc.AttributeIndices()
	kinds := p.m.attributes.kinds
	frameType := attrOther
	for k := range indices.Len() {
		if at := uint(uint32(indices.At(k))); at < uint(len(kinds)) && (kinds[at] == attrKernelFrame || kinds[at] == attrOtherFrame) {
			frameType = kinds[at]
			break
		}
	}
	if frameType == attrOtherFrame || frameType == attrOther && !p.isKernel(loc) {
		return frame{}, false
	}
	named := p.m.funcs.isNamed(&p.m.dictionary, loc.Lines())
	return frame{
		loc: i, mapping: loc.MappingIndex(), untyped: frameType == attrOther, named: named, selected: !named || p.opts.All,
	}, true
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
		return p.known().IsModule(mp.module)
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

// notPlain stands for a frame that is not in the text of the core kernel, or did not come
// absolute.
const notPlain = math.MaxUint32

// placeFrames finds out what the addresses of the frames mean (contract 2), and makes
// them found by their locations.
func (p *pass) placeFrames() {
	p.frameOf = zeroed(p.frameOf, p.m.locations.Len())
	p.plain = zeroed(p.plain, p.m.locations.Len())
	text := p.r.text
	for i := range p.frames {
		f := &p.frames[i]
		p.frameOf[f.loc] = int32(i + 1)
		addr := p.m.locations.At(int(f.loc)).Address()
		if inKernelHalf(addr) {
			f.form, f.addr = formAbsolute, addr
			if p.plain[f.loc] = notPlain; text.Contains(addr) {
				p.plain[f.loc] = uint32(addr-text.Start) + 1
			}
			continue
		}
		mp := p.m.maps.at(&p.m, f.mapping)
		switch image, named := p.identify(mp); {
		case image != nil && inKernelHalf(image.Base+addr):
			f.form, f.image, f.addr = formImage, image, image.Base+addr
		case named:
			f.form = formNamed
		}
		f.lookedUp = mp.content.isRelative()
		p.plain[f.loc] = notPlain
	}
}

// identify returns the core kernel or module that a mapping identifies by build id, else
// file ID, else the core kernel's name; or that it is one of the modules of a name.
func (p *pass) identify(mp *mapping) (image *symtab.Image, named bool) {
	s := p.known()
	switch c := &mp.content; {
	case mp.vague:
		return nil, false
	case c.hasID():
		return s.byID(c), false
	case mp.isGuest || mp.module == "":
		return nil, false
	case mp.module == symtab.KernelName:
		return s.Core(), false
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
