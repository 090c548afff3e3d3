// SPDX-License-Identifier: Apache-2.0

package symtab

// Landmarks are the facts about a core kernel that decide at which address a frame is looked up
// (see contract 2.3) and whether it is a BPF trampoline (see contract 3.5).
type Landmarks struct {
	Arch  string // as GOARCH
	Entry Range  // entry code: [__entry_text_start, __entry_text_end)
	Fred  Range  // asm_fred_entrypoint_kernel, entry code outside of that range

	// Thunks are the indirect and return thunks of x86, in the order of their addresses. They do not
	// overlap.
	Thunks []Range

	// SharedTrampolines says that the kernel puts BPF trampolines into pages that hold other code as
	// well, although it announces a whole page for each; or that it is not known, as from a pack.
	SharedTrampolines bool
}

// IsEntry reports whether an address lies in entry code.
func (l *Landmarks) IsEntry(addr uint64) bool { return l.Entry.Contains(addr) || l.Fred.Contains(addr) }

// IsThunk reports whether an address lies in an indirect or return thunk.
func (l *Landmarks) IsThunk(addr uint64) bool { return l.hasThunk(addr, addr) }

// IsNear reports whether an address or one next to it lies in entry code or in a thunk.
func (l *Landmarks) IsNear(addr uint64) bool {
	return l.hasThunk(addr-1, addr+1) || l.IsEntry(addr-1) || l.IsEntry(addr) || l.IsEntry(addr+1)
}

// hasThunk reports whether one of the addresses from first to last lies in a thunk.
func (l *Landmarks) hasThunk(first, last uint64) bool {
	low, high := 0, len(l.Thunks) // the first thunk that ends after first is between them
	for low < high {
		if mid := int(uint(low+high) / 2); l.Thunks[mid].End <= first {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low < len(l.Thunks) && l.Thunks[low].Start <= last
}
