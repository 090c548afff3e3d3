package symtab

import "fmt"

// Origin is the kind of thing that kernel code belongs to.
type Origin uint8

// The origins, in the order in which they are listed in metrics.
const (
	OriginKernel     Origin = iota // the core kernel
	OriginModule                   // a loadable module
	OriginBPF                      // a JITed function of a BPF program
	OriginTrampoline               // a BPF trampoline, dispatcher or struct_ops image
	OriginOOL                      // an out-of-line page of ftrace or kprobes
	NumOrigins       = iota
)

var originNames = [NumOrigins]string{"kernel", "module", "bpf", "trampoline", "ool"}

// String returns the origin's name in metrics.
func (o Origin) String() string {
	if int(o) < len(originNames) {
		return originNames[o]
	}
	return fmt.Sprintf("Origin(%d)", uint8(o))
}

// KernelName is the name of the module that stands for the core kernel.
const KernelName = "vmlinux"

// ModuleInfo says what a module is and where it lies.
type ModuleInfo struct {
	Name    string // as the kernel writes it ("nf_tables"), KernelName for the core kernel
	Origin  Origin
	BuildID string // GNU build id in lower-case hex, empty if it has none
	FileID  string // identifies the build in profiles, 32 hex digits, empty if it has none

	// Base is the address that offsets into the module count from: the lower of
	// _text and _stext of the core kernel, the address of .text of a module.
	Base uint64

	// Start and End are the addresses [Start, End) of its code, the same as the
	// memory it was loaded to. Base need not be the lowest of them.
	Start, End uint64

	// Valid is when the module certainly was loaded, Slack how much longer it may
	// have been.
	Valid Interval
	Slack Slack
}

// A Module is a piece of kernel code and the symbols in it. It is immutable.
type Module struct {
	ModuleInfo
	symbols symbols
}

// Lived returns the module with another lifetime.
func (m *Module) Lived(valid Interval, slack Slack) *Module {
	lived := *m
	lived.Valid, lived.Slack = valid, slack
	return &lived
}

// Len returns the number of addresses at which a symbol of the module starts.
func (m *Module) Len() int { return m.symbols.len() }

// Contains reports whether addr is an address of the module's code.
func (m *Module) Contains(addr uint64) bool { return m.Start <= addr && addr < m.End }

// Symbol returns the module's symbol number i, counted from 0 in the order of
// their addresses. It panics if there is no such symbol.
func (m *Module) Symbol(i int) Symbol {
	start := m.Start + uint64(m.symbols.extents[i].offset())
	return Symbol{Start: start, End: start + m.symbols.size(i), Module: m, number: uint32(i)}
}

// A Symbol names the kernel code in [Start, End). It is valid as long as its
// module or function is.
type Symbol struct {
	Start, End uint64
	Module     *Module   // whose symbol it is, or nil
	Function   *Function // which it names, or nil
	number     uint32
}

// Name returns the symbol's names. Of a module's, the result is shared: the same
// symbol gives the same strings again while it is in use (see nameCache).
func (s Symbol) Name() *Name {
	if s.Function != nil {
		name := s.Function.Name()
		return &Name{Name: name, System: name}
	}
	return s.Module.symbols.names.name(s.number)
}
