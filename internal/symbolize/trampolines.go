// SPDX-License-Identifier: Apache-2.0

package symbolize

import "github.com/kernelsym/kernelsym/internal/timeline"

// certain returns a hit, or an empty one if it is not certain (contract 3.5): code without a
// name owns its addresses and names nothing, and a trampoline that shares its page needs evidence.
func (l *lookup) certain(hit timeline.Hit, r Role) timeline.Hit {
	switch image := hit.Image; {
	case image == nil || image.Text != nil:
		return hit
	case image.Name() == "", l.kernel.Snapshot().IsShared(image) && !l.isCalledFromPatchSite(r):
		return timeline.Hit{Reason: timeline.ReasonUnresolved}
	}
	return hit
}

// isCalledFromPatchSite reports whether a frame was called from the patch site of a function, from which only
// trampolines are called. For an exact frame that is evidence only if all programs are known: a program that a
// trampoline has called has no stack frame of its own in its first instructions, so that the next frame is
// that of the patch site as well.
func (l *lookup) isCalledFromPatchSite(r Role) bool {
	switch {
	case r.Caller == nil, r.Kind == Exact && l.kernel.Snapshot().IsPartial():
		return false
	}
	caller := l.kernel.newLookup(r.Caller, l.during)
	is := caller.isPatchSite(r.Producer)
	l.same = l.same.And(caller.same)
	return is
}

// isPatchSite reports whether a frame, as a caller, returns to the patch site of a function of this kernel:
// the instruction after the call that ftrace writes at the beginning of a function.
func (l *lookup) isPatchSite(p Producer) bool {
	f := l.frame
	if f.form == formNone || f.form == formInModule && l.image == nil || f.Mapping.name.isGuest {
		return false
	}
	ip := f.ip(p, l.image)
	if p != EBPFProfiler && f.IsLookedUpForm() {
		ip++
	}
	hit, _ := l.at(ip - 1)
	switch {
	case !hit.Symbol.Exists(), hit.Image.Origin == timeline.OriginTrampoline, hit.Image.Origin == timeline.OriginOOL:
		return false // no function
	case f.form == formAbsolute && l.kernel.isForeign(f.Mapping, hit.Image):
		return false
	}
	switch offset := ip - hit.Symbol.Start; l.kernel.Snapshot().Landmarks().Arch {
	case "amd64": // call, or endbr64 and call
		return offset == 5 || offset == 9
	case "arm64": // mov x9, x30 and bl, or bti and these (arch/arm64/include/asm/ftrace.h)
		return offset == 8 || offset == 12
	}
	return false
}
