// SPDX-License-Identifier: Apache-2.0

package symbolize

import "github.com/kernelsym/kernelsym/internal/timeline"

// certain returns a hit, or an empty one if it is not certain (contract 3.5): code without a
// name owns its addresses and names nothing, and a trampoline that shares its page needs evidence.
func (l *lookup) certain(hit timeline.Hit, r Role) timeline.Hit {
	switch image := hit.Image; {
	case image == nil || !image.IsFunction():
		return hit
	case image.Name() == "", l.kernel.Snapshot().IsShared(image) && !l.isInTrampoline(image, r):
		return timeline.Hit{Reason: timeline.ReasonUnresolved}
	}
	return hit
}

// isInTrampoline reports whether a frame in a role certainly is in a trampoline with the name of an image: it was
// called from the patch site of the function that the trampoline belongs to. From a patch site, nothing but the
// function's trampoline is called. For an exact frame that is evidence only if all programs are known: a program that
// the trampoline has called has no stack frame of its own in its first instructions, so that the next frame is that of
// the patch site as well.
func (l *lookup) isInTrampoline(image *timeline.Image, r Role) bool {
	if r.Caller == nil {
		return false
	}
	if r.Kind == Exact {
		isComplete, same := l.kernel.Snapshot().IsComplete(image, l.during)
		if l.same = l.same.And(same); !isComplete {
			return false
		}
	}
	caller := l.kernel.newLookup(r.Caller, l.during)
	function := caller.atPatchSite(r.Producer)
	l.same = l.same.And(caller.same)
	return function.Symbol.Exists() && l.kernel.Snapshot().IsTrampolineOf(image, function)
}

// atPatchSite returns the function of this kernel to whose patch site a frame, as a caller, returns: the instruction
// after the call that ftrace writes at the beginning of a function. The hit is empty if there is none.
func (l *lookup) atPatchSite(p Producer) (function timeline.Hit) {
	f := l.frame
	if f.form == formNone || f.form == formInModule && !l.findModule() || f.Mapping.name.isGuest {
		return function
	}
	ip := f.ip(p, l.image)
	if p != EBPFProfiler && f.IsLookedUpForm() {
		ip++
	}
	hit, _ := l.at(ip - 1)
	switch {
	case !hit.Symbol.Exists(), hit.Image.Origin == timeline.OriginTrampoline, hit.Image.Origin == timeline.OriginOOL:
		return function
	case f.form == formAbsolute && l.kernel.isForeign(f.Mapping, hit.Image):
		return function
	case !isPatchSite(l.kernel.Snapshot().Landmarks().Arch, ip-hit.Symbol.Start):
		return function
	}
	return hit
}

// isPatchSite reports whether a call of a trampoline returns to an offset from the start of a function.
func isPatchSite(arch string, offset uint64) bool {
	switch arch {
	case "amd64": // call, or endbr64 and call
		return offset == 5 || offset == 9
	case "arm64": // mov x9, x30 and bl, or bti and these (arch/arm64/include/asm/ftrace.h)
		return offset == 8 || offset == 12
	}
	return false
}
