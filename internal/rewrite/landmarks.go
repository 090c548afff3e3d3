// SPDX-License-Identifier: Apache-2.0

package rewrite

import "github.com/kernelsym/kernelsym/internal/symtab"

// landmarks returns those of the kernel that an address in its core is of.
func (r *resolver) landmarks(addr uint64) *symtab.Landmarks {
	if r.opts.Gateway {
		if core := r.snapshot.CoreAt(addr); core != nil && core.Landmarks != nil {
			return core.Landmarks
		}
	}
	return r.marks
}

// isEntry reports whether an address lies in entry code (contract 2.3).
func (r *resolver) isEntry(addr uint64) bool { return r.landmarks(addr).IsEntry(addr) }

// isThunk reports whether an address lies in an indirect or return thunk.
func (r *resolver) isThunk(addr uint64) bool { return r.landmarks(addr).IsThunk(addr) }

// decides reports whether what was entered from an address may be no caller: it lies in
// entry code or a thunk.
func (r *resolver) decides(addr uint64) bool {
	marks := r.landmarks(addr)
	return marks.IsEntry(addr) || marks.IsThunk(addr)
}

// decidesNear reports whether an address or one next to it decides.
func (r *resolver) decidesNear(addr uint64) bool {
	if !r.opts.Gateway {
		return r.marks.IsNear(addr)
	}
	return r.decides(addr-1) || r.decides(addr) || r.decides(addr+1)
}

// lookedAsCaller returns the address in the core kernel that is looked up for a caller: that
// of the call, or ip where no symbol covers the byte before it but one begins there.
func (r *resolver) lookedAsCaller(ip uint64) uint64 {
	if core := r.snapshot.CoreAt(ip); core != nil && core.Lookup(ip).Start == ip && core.Lookup(ip-1).Image == nil {
		return ip
	}
	return ip - 1
}

// lookedEitherWay returns what stands for the address that is looked up for a frame of which it
// is not known whether it is a caller.
func (r *resolver) lookedEitherWay(ip uint64) uint64 {
	caller := r.lookedAsCaller(ip)
	if r.isEntry(ip) != r.isEntry(caller) || r.isThunk(ip) != r.isThunk(caller) {
		return unknownCore
	}
	return ip
}

// beginsSymbol reports whether a symbol of the core kernel begins at an address.
func (r *resolver) beginsSymbol(addr uint64) bool {
	core := r.snapshot.CoreAt(addr)
	return core != nil && core.Lookup(addr).Start == addr
}

// isPatchSite reports whether ip is where a call from a function's patch site returns to,
// throughout an interval (contract 3.5): nothing but a trampoline is called from there.
func (r *resolver) isPatchSite(ip uint64, during symtab.Interval) bool {
	symbol := r.snapshot.At(ip-1, during).Symbol
	if m := symbol.Image; m == nil || m.Origin == symtab.OriginTrampoline || m.Origin == symtab.OriginOOL {
		return false // of no function
	}
	switch offset := ip - symbol.Start; r.marks.Arch {
	case "amd64": // call, or endbr64 and call
		return offset == 5 || offset == 9
	case "arm64": // mov x9, x30 and bl, or bti and these (arch/arm64/include/asm/ftrace.h)
		return offset == 8 || offset == 12
	}
	return false
}
