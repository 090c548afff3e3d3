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
	expired bool  // whose it was is forgotten
}

// answer looks up a frame in a role, as it was at some time.
func (p *pass) answer(t target, r role, at *when) answer {
	switch r {
	case roleForeign:
		return answer{foreign: true}
	case roleEBPFLeaf:
		a, _ := p.lookup(t, t.addr+1, at)
		return a
	case roleCaller:
		a, settled := p.lookup(t, t.addr-1, at)
		if own := a; !a.named && !a.expired {
			// It may have been interrupted at the first byte of a function, after
			// padding; or nobody knows whose the byte before is.
			switch m := a.owner.module; {
			case m != nil && m.Contains(t.addr) && !p.known.Snapshot.IsPastEnd(m, t.addr, m.Valid):
				own = p.lookupIn(m, t.addr)
			case m != nil, settled:
				own, _ = p.lookup(t, t.addr, at)
			}
			if own.named && own.symbol.Start == t.addr {
				return own
			}
		}
		return a
	}
	a, _ := p.lookup(t, t.addr, at)
	return a
}

// lookup looks up an address near that of the target, at some time; nil means that
// the answer is settled for all of the message. Unless it is settled, that there is no
// owner can also mean that nobody knows which.
func (p *pass) lookup(t target, addr uint64, at *when) (a answer, settled bool) {
	switch {
	case t.module != nil:
		return p.lookupIn(t.module, addr), true
	case at == nil:
		return p.lookupSettled(addr)
	case at.n == 0:
		return p.lookupAlways(addr)
	}
	a, settled = p.lookupAt(addr, at.at[0])
	if at.n > 1 {
		b, settledToo := p.lookupAt(addr, at.at[1])
		if b != a {
			return answer{}, false // the clock does not tell which
		}
		settled = settled && settledToo
	}
	return a, settled
}

// lookupIn looks up an address that was relative to a module: at any time, it is the
// same code.
func (p *pass) lookupIn(m *symtab.Module, addr uint64) answer {
	if !m.Contains(addr) || p.known.Snapshot.IsPastEnd(m, addr, m.Valid) {
		return answer{}
	}
	if symbol, ok := m.Lookup(addr); ok {
		return answerOf(symbol, addr)
	}
	return answer{owner: owner{module: m}}
}

// lookupSettled looks up an address, and reports whether the answer is the same for
// all samples of the message.
func (p *pass) lookupSettled(addr uint64) (a answer, settled bool) {
	if a, settled = p.lookupAlways(addr); settled {
		return a, true
	}
	span := p.wholeSpan()
	if span.n == 0 {
		return answer{}, settled
	}
	a, settled = p.lookupAt(addr, span.at[0])
	return a, settled && !p.times.unplaced
}

// lookupAlways looks up an address, and reports whether what it says has always been
// so. If it has not, it says nothing.
func (p *pass) lookupAlways(addr uint64) (a answer, settled bool) {
	s := p.known.Snapshot
	symbol, ok, settled := s.LookupAlways(addr)
	switch {
	case ok:
		return answerOf(symbol, addr), settled
	case !settled:
		return answer{}, false
	}
	module, _ := s.ModuleAt(addr, symtab.Always)
	return answer{owner: owner{module: module}}, true
}

// answerOf returns the answer that is a symbol, for an address in it.
func answerOf(symbol symtab.Symbol, addr uint64) answer {
	a := answer{symbol: symbol, named: true, owner: ownerOf(symbol), line: -1}
	if f := symbol.Function; f != nil {
		a.line = int32(f.Lines.Find(uint32(addr - f.Start)))
	}
	return a
}

// lookupAt looks up an address in an interval, and reports whether no instant of it
// has another answer.
func (p *pass) lookupAt(addr uint64, at symtab.Interval) (a answer, settled bool) {
	s := p.known.Snapshot
	symbol, ok, settled := s.LookupSettled(addr, at)
	if ok {
		return answerOf(symbol, addr), settled
	}
	module, _ := s.ModuleAt(addr, at)
	if module == nil && s.Expired(addr, at) {
		return answer{expired: true}, settled && s.Expired(addr, symtab.Instant(at.To-1))
	}
	return answer{owner: owner{module: module}}, settled
}

// sameForAll returns the answer if it is the same for a leaf and a caller of all
// users, at the times of all samples: if one symbol covers the bytes before the
// address and, for the eBPF profiler, after it, or if none does. timed says that the
// answer depends on when.
func (p *pass) sameForAll(t target, users uint8) (a answer, same, timed bool) {
	after := t.addr
	if users&(1<<userEBPF) != 0 && after < math.MaxUint64 {
		after++
	}
	if last := &p.last; last.named && t.module == nil && last.symbol.Start < t.addr && after < last.symbol.End &&
		users&(1<<userForeign) == 0 {
		return *last, true, false
	}
	look := func(addr uint64) answer {
		if t.module != nil {
			return p.lookupIn(t.module, addr)
		}
		a, settled := p.lookupSettled(addr)
		timed = timed || !settled
		return a
	}
	a = look(t.addr)
	if m := a.symbol.Module; m != nil && !timed && a.symbol.Start < t.addr && after < a.symbol.End {
		if m.Valid == symtab.Always {
			p.last = a // and all addresses of the symbol are the module's
		}
		return a, users&(1<<userForeign) == 0, false
	}
	same = a == look(t.addr-1) && (after == t.addr || a == look(after))
	return a, same && !timed && users&(1<<userForeign) == 0, timed
}
