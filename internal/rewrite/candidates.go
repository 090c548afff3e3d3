// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// frame is a location that is kernel code.
type frame struct {
	loc     int32
	mapping int32  // that it came with
	uses    useSet // by the stacks that samples have
	answer  int32  // position + 1 of its answer, 0 for none

	form      form
	selected  bool // it is a candidate
	named     bool // it came with a name
	onlyLines bool // and all that may change are its lines (contract 1.2)
	untyped   bool // it has no frame type
	lookedUp  bool // its address is in looked-up form, if the eBPF profiler did not send it
	shared    bool // it can be in a trampoline that shares its page with other code
	atPatch   bool // as a caller, it is at a patch site; valid if
	patch     bool // that was asked

	sent  uint64          // the address as it came
	addr  uint64          // the absolute address that was sent, but for formNone and formNamed
	image *timeline.Image // formImage, and of a gateway's: the one that the mapping identifies
}

// form says how the address of a frame is given (contract 2).
type form uint8

const (
	formNone     form = iota // no address is known
	formAbsolute             // as it is
	formImage                // counts from the base of an image that the mapping identifies
	formNamed                // counts from the base of a module that only the time tells
)

// candidates are the kernel frames of a message.
type candidates struct {
	opts   *Options
	counts Counts
	m      message
	r      resolver
	times  times

	frames  []frame
	frameOf []int32 // by location: its position in frames + 1, 0 for none
	marks   []mark  // by location
}

// find lists the kernel frames of the message, counts those that are no candidates,
// as they came with a name, and reports whether there are others (contract 1.1, 1.2).
func (c *candidates) find() (found bool) {
	n := c.m.locations.Len()
	if n == 0 {
		return false
	}
	c.m.attributes.read(&c.m.dictionary)
	c.marks = zeroed(c.marks, n)
	for i := range n {
		loc := c.m.locations.At(i)
		frameType := c.m.attributes.frameType(loc.AttributeIndices())
		if frameType == attrOtherFrame {
			continue
		}
		if frameType == attrOther {
			if is, mayDecide := c.isKernel(loc); !is {
				if mayDecide {
					c.marks[i] = markUnknown
				}
				continue
			}
		}
		named := c.m.funcs.isNamed(&c.m.dictionary, loc.Lines())
		f := frame{
			loc: int32(i), mapping: loc.MappingIndex(), sent: loc.Address(),
			untyped: frameType == attrOther, named: named, selected: !named || c.opts.All,
		}
		f.onlyLines = !f.selected && c.opts.DebugInfo && lacksNumber(loc.Lines())
		isCounted := named && !c.opts.All
		if isCounted {
			c.counts[OutcomeNamed][timeline.OriginKernel]++
		}
		f.selected = f.selected || f.onlyLines
		if c.opts.Gateway {
			if f.image = c.packed(&f); f.image == nil {
				if !isCounted {
					c.counts[OutcomeNoPack][timeline.OriginKernel]++
				}
				f.selected, f.onlyLines = false, false
			}
		}
		c.frames = append(c.frames, f)
		if f.selected {
			found = true
			c.marks[i] |= markSelected
		}
	}
	return found
}

// packed returns the image of the pack that a gateway has of a frame's build, nil if it has
// none or the frame is no candidate (contract 10.2). If there is something to be done for
// the frame, the pack is wanted.
func (c *candidates) packed(f *frame) *timeline.Image {
	mp := c.m.maps.at(&c.m, f.mapping)
	if !f.canBePacked(mp) {
		return nil
	}
	if image := c.r.load().byID(&mp.content); image != nil {
		return image
	}
	if f.selected {
		c.r.lines.wanted.addMapping(&mp.content)
	}
	return nil
}

// canBePacked reports whether a frame with that mapping is a candidate of a gateway that has
// the pack.
func (f *frame) canBePacked(mp *mapping) bool {
	return !f.untyped && !inKernelHalf(f.sent) && !mp.vague && mp.content.hasID()
}

// isKernel reports whether a location without frame type is kernel code (contract 1.1b, c).
// Of one that is not, mayDecide says that it may be (contract 1.6), and then in entry code or
// a thunk.
func (c *candidates) isKernel(loc pprofile.Location) (is, mayDecide bool) {
	mp, addr := c.m.maps.at(&c.m, loc.MappingIndex()), loc.Address()
	inHalf := inKernelHalf(addr) && !isSpecial(addr)
	if mp.vague && !inHalf {
		return false, mp.isKernel
	}
	switch {
	case mp.bracketed:
		is = c.r.load().snapshot.IsModule(mp.module)
	case mp.content.fileName != "":
		is = mp.isKernel
	default:
		is = inHalf
	}
	return is, !is && mp.vague && (c.opts.Gateway || c.r.load().decidesNear(addr))
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

// place finds out what the addresses of the frames mean (contract 2), and makes
// them found by their locations.
func (c *candidates) place() {
	c.frameOf = zeroed(c.frameOf, c.m.locations.Len())
	for i := range c.frames {
		f := &c.frames[i]
		c.frameOf[f.loc] = int32(i + 1)
		c.placeFrame(f)
		if c.isNowhere(f) {
			c.marks[f.loc] |= markUnknown
		}
		if c.opts.Gateway && !f.selected {
			c.wantDecider(f)
		}
		f.shared = c.mayShare(f)
		if f.shared || f.addr != 0 && c.r.decidesNear(f.addr) {
			c.marks[f.loc] |= markSpecial
		}
	}
}

// isNowhere reports whether a frame may be in entry code or a thunk, and nothing says where it
// is (contract 2.3, 10.2).
func (c *candidates) isNowhere(f *frame) bool {
	if f.form != formNone || f.image != nil {
		return false
	}
	mp := c.m.maps.at(&c.m, f.mapping)
	return mp.mayBeCore() && (mp.vague || c.opts.Gateway || !mp.isGuest && !mp.content.hasID())
}

// wantDecider wants the pack of a frame that is no candidate of a gateway, but may decide how
// those of others are used (contract 10.2).
func (c *candidates) wantDecider(f *frame) {
	switch mp := c.m.maps.at(&c.m, f.mapping); {
	case f.image == nil && c.marks[f.loc]&markUnknown != 0 && f.canBePacked(mp):
		c.r.lines.wanted.addMapping(&mp.content)
	case f.image != nil && f.image.Origin == timeline.OriginKernel:
		c.r.lines.wanted.addBuild(f.image.BuildID())
	}
}

// mayShare reports whether a candidate can be in a trampoline that shares its page with
// other code, at any address that may be looked up for it.
func (c *candidates) mayShare(f *frame) bool {
	if !c.r.marks.SharedTrampolines || !f.selected || f.form != formAbsolute {
		return false
	}
	core := c.r.snapshot.Core()
	return (core == nil || !core.Contains(f.addr)) && c.r.snapshot.MayBeTrampoline(f.addr-1, f.addr+2, c.times.whole())
}

func (c *candidates) placeFrame(f *frame) {
	if c.opts.Gateway && f.image == nil {
		return
	}
	if inKernelHalf(f.sent) {
		f.form, f.addr = formAbsolute, f.sent
		return
	}
	mp := c.m.maps.at(&c.m, f.mapping)
	if c.opts.Gateway {
		if f.lookedUp = mp.content.isRelative(); f.sent <= f.image.End-f.image.Base() {
			f.form, f.addr = formImage, f.image.Base()+f.sent
		}
		return
	}
	switch image, named := c.identify(mp); {
	case image != nil && inKernelHalf(image.Base()+f.sent):
		f.form, f.image, f.addr = formImage, image, image.Base()+f.sent
	case named:
		f.form = formNamed
	}
	f.lookedUp = mp.content.isRelative()
}

// identify returns the core kernel or module that a mapping identifies by build id, else
// file ID, else the core kernel's name; or that it is one of the modules of a name.
func (c *candidates) identify(mp *mapping) (image *timeline.Image, named bool) {
	r := c.r.load()
	switch {
	case mp.vague:
		return nil, false
	case mp.content.hasID():
		return r.byID(&mp.content), false
	case mp.isGuest || mp.module == "":
		return nil, false
	case mp.module == timeline.KernelName:
		return r.snapshot.Core(), false
	}
	return nil, true
}
