package rewrite

import (
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// ebpfProfilerScope begins the scope name of the OTel eBPF profiler.
const ebpfProfilerScope = "go.opentelemetry.io/ebpf-profiler"

func isEBPFProfiler(scope string) bool { return strings.HasPrefix(scope, ebpfProfilerScope) }

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

// target is what the address of a frame means (section 2).
type target struct {
	ok   bool
	addr uint64 // absolute

	// module is the one that the address was relative to, nil if it was
	// absolute. Only symbols of this module can be the answer.
	module *symtab.Module
}

func (p *pass) target(loc pprofile.Location, m *mapping) target {
	addr := loc.Address()
	switch {
	case inKernelHalf(addr):
		return target{ok: true, addr: addr}
	case m.module != nil && inKernelHalf(m.module.Base+addr):
		return target{ok: true, addr: m.module.Base + addr, module: m.module}
	}
	return target{}
}

// role is how a stack uses a frame. Where roles have different answers, the
// first of these that the frame has is served by the location itself.
type role uint8

const (
	roleForeign  role = iota // part of another host's profile
	roleCaller               // a return address, or one moved back into the call
	roleLeaf                 // where the CPU was
	roleEBPFLeaf             // the same, of the OTel eBPF profiler: one less
	numRoles     = iota
)

// answer is what is known of a frame in one role.
type answer struct {
	symbol  symtab.Symbol
	named   bool  // symbol is valid
	owner   owner // whose code the frame is, if that is known
	line    int32 // of the function's source lines, -1 for none
	foreign bool  // not ours to answer
}

// answer looks up a frame in a role.
func (p *pass) answer(t target, r role) answer {
	switch r {
	case roleForeign:
		return answer{foreign: true}
	case roleEBPFLeaf:
		return p.lookup(t, t.addr+1)
	case roleCaller:
		a := p.lookup(t, t.addr-1)
		if !a.named {
			// A frame that was interrupted at the first byte of a function, after
			// padding.
			if at := p.lookup(t, t.addr); at.named && at.symbol.Start == t.addr {
				return at
			}
		}
		return a
	}
	return p.lookup(t, t.addr)
}

// lookup looks up an address near that of the target.
func (p *pass) lookup(t target, addr uint64) answer {
	if symbol, ok := p.snapshot.Lookup(addr, symtab.Now); ok {
		if t.module != nil && symbol.Module != t.module {
			return answer{}
		}
		a := answer{symbol: symbol, named: true, owner: ownerOf(symbol), line: -1}
		if f := symbol.Function; f != nil {
			a.line = int32(f.Lines.Find(uint32(addr - f.Start)))
		}
		return a
	}
	module, _ := p.snapshot.ModuleAt(addr, symtab.Now)
	if t.module != nil && module != t.module {
		return answer{}
	}
	return answer{owner: owner{module: module}}
}

// sameInAllRoles returns the answer if it is the same for a leaf and a caller of
// all users: if the symbol covers the bytes before the address and, for the eBPF
// profiler, after it, or if no symbol does.
func (p *pass) sameInAllRoles(t target, users uint8) (answer, bool) {
	if users&(1<<userForeign) != 0 {
		return answer{}, false
	}
	after := t.addr
	if users&(1<<userEBPF) != 0 && after < math.MaxUint64 {
		after++
	}
	if last := &p.last; last.named && t.module == nil && last.symbol.Start < t.addr && after < last.symbol.End {
		return *last, true
	}
	a := p.lookup(t, t.addr)
	if a.named && a.symbol.Module != nil {
		p.last = a
		return a, a.symbol.Start < t.addr && after < a.symbol.End
	}
	return a, a == p.lookup(t, t.addr-1) && (after == t.addr || a == p.lookup(t, after))
}
