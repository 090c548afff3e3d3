// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// kernelText says what the code at an address is, where that decides how frames are looked up
// (contract 2.3, 3.5).
type kernelText struct {
	snapshot *timeline.Snapshot
	marks    *symtab.Landmarks // of its core kernel
	gateway  bool              // it can be of several kernels
}

// landmarks returns those of the kernel that an address in its core is of.
func (t *kernelText) landmarks(addr uint64) *symtab.Landmarks {
	if t.gateway {
		if core := t.snapshot.CoreAt(addr); core != nil && core.Text.Landmarks != nil {
			return core.Text.Landmarks
		}
	}
	return t.marks
}

// isEntry reports whether an address lies in entry code (contract 2.3).
func (t *kernelText) isEntry(addr uint64) bool { return t.landmarks(addr).IsEntry(addr) }

// isThunk reports whether an address lies in an indirect or return thunk.
func (t *kernelText) isThunk(addr uint64) bool { return t.landmarks(addr).IsThunk(addr) }

// decides reports whether what was entered from an address may be no caller: it lies in
// entry code or a thunk.
func (t *kernelText) decides(addr uint64) bool {
	marks := t.landmarks(addr)
	return marks.IsEntry(addr) || marks.IsThunk(addr)
}

// decidesNear reports whether an address or one next to it decides.
func (t *kernelText) decidesNear(addr uint64) bool {
	if !t.gateway {
		return t.marks.IsNear(addr)
	}
	return t.decides(addr-1) || t.decides(addr) || t.decides(addr+1)
}

// lookedAsCaller returns the address in the core kernel that is looked up for a caller: that
// of the call, or ip where no symbol covers the byte before it but one begins there.
func (t *kernelText) lookedAsCaller(ip uint64) uint64 {
	if core := t.snapshot.CoreAt(ip); core != nil && core.Lookup(ip).Start == ip && !core.Lookup(ip-1).Exists() {
		return ip
	}
	return ip - 1
}

// lookedEitherWay returns what stands for the address that is looked up for a frame of which it
// is not known whether it is a caller.
func (t *kernelText) lookedEitherWay(ip uint64) uint64 {
	caller := t.lookedAsCaller(ip)
	if t.isEntry(ip) != t.isEntry(caller) || t.isThunk(ip) != t.isThunk(caller) {
		return unknownCore
	}
	return ip
}

// beginsSymbol reports whether a symbol of the core kernel begins at an address.
func (t *kernelText) beginsSymbol(addr uint64) bool {
	core := t.snapshot.CoreAt(addr)
	return core != nil && core.Lookup(addr).Start == addr
}

// patchSite returns the image with a function whose patch site a call returns from to ip, throughout
// an interval (contract 3.5); nil if ip is no such address. Nothing but a trampoline is called from
// there.
func (t *kernelText) patchSite(ip uint64, during timeline.Interval) *timeline.Image {
	hit, _ := t.snapshot.At(ip-1, during)
	symbol := hit.Symbol
	if m := hit.Image; m == nil || !symbol.Exists() || m.Origin == timeline.OriginTrampoline || m.Origin == timeline.OriginOOL {
		return nil // of no function
	}
	isSite := false
	switch offset := ip - symbol.Start; t.marks.Arch {
	case "amd64": // call, or endbr64 and call
		isSite = offset == 5 || offset == 9
	case "arm64": // mov x9, x30 and bl, or bti and these (arch/arm64/include/asm/ftrace.h)
		isSite = offset == 8 || offset == 12
	}
	if !isSite {
		return nil
	}
	return hit.Image
}
