// SPDX-License-Identifier: Apache-2.0

// Package kernellog reads the stack traces in a kernel log. It decides which role an address in the log has (contract 2.7), and
// which build wrote a line.
package kernellog

import (
	"bytes"
	"regexp"
	"strings"
)

// A Role says what an address in a log is.
type Role uint8

// The roles.
const (
	Exact     Role = iota // the address of an instruction at which the CPU was
	Caller                // a return address, the byte after a call instruction
	Undecided             // one of the first two
	Mentioned             // an address outside of stacks: exact if it is the first byte of a function, else undecided
	Guess                 // a word of the stack that may be no frame
)

// A Policy is how addresses are read that nothing in their line marks.
type Policy uint8

// The policies.
const (
	ByTrace    Policy = iota // as their trace shows
	AllCallers               // as return addresses
	AllExact                 // as addresses of instructions, whatever marks them
)

// A Reader reads the lines of a log in their order. The zero value is ready to use.
//
// A trace is what show_trace_log_lvl in arch/x86/kernel/dumpstack.c and dump_backtrace in arch/arm64/kernel/stacktrace.c
// print:
//
//	Call Trace:                                     begins a trace
//	 <TASK>                                         a marker
//	 dump_stack_lvl+0x5d/0x80                       a frame
//	 ? lock_acquire+0x10/0x20                       a guess
//	 asm_sysvec_apic_timer_interrupt+0x1a/0x20      a frame
//	RIP: 0010:vfs_read+0x200/0x370                  registers
//	 ksys_read+0x6f/0xf0 [xfs 0f1e…]                a frame
//	---[ end trace 0000000000000000 ]---            ends the trace
type Reader struct {
	Policy Policy

	trace trace
	pc    string // the last function and offset behind pc, as in a frame; empty if none was printed since the last dump
	frame *frame // of the line that was read last; nil if it is no frame
	in    trace  // the trace of the frame, as it was before the frame
}

// trace is a part of a log. The zero value is no trace.
type trace struct {
	begun   bool
	context string // the thread or CPU that prints it, as printk writes it; empty if it does not
	sources bool   // the kernel prints where it found a frame: arm64 since Linux 6.13, which does so for each first frame
	last    string // the function of the last frame, empty before the first
}

// frame is a line with a frame.
type frame struct {
	place    string // a function with offset and size, or an address
	function string // empty for an address
	isGuess  bool
	source   string // where arm64 found it
}

var (
	// dumpHeader matches the header of a dump. A process chooses its name, but that is shorter than a build id.
	dumpHeader = regexp.MustCompile(`CPU: \d+ (?:UID: \d+ )?PID: \d+ Comm: .*?(?: ([0-9a-f]{40}))?\s*$`)

	// dumpEnd is in the lines that end a dump, or begin what has no header yet: another dump, a boot, or a part of a log that
	// outlived a crash (pstore_dump in fs/pstore/platform.c).
	dumpEnd = regexp.MustCompile(`---\[ end |------------\[ cut here \]|Linux version |^[A-Z][a-z]+#\d+ Part\d+\s*$`)

	// traceHeader begins the trace of a dump: arm64 writes no capital. A second one has another header or, like
	// that of a task that hangs, none.
	traceHeader = regexp.MustCompile(`Call [Tt]race:`)

	printedPC = regexp.MustCompile(`(?:^|\s)pc : (\S+)`) // __show_regs in arch/arm64/kernel/process.c

	// printkContext is what printk writes before a message with CONFIG_PRINTK_CALLER (print_caller in kernel/printk/printk.c).
	printkContext = regexp.MustCompile(`\[ *([TC]\d+)\]`)

	// frameLine is a line that is nothing but a frame, behind whatever a log has at the beginning of its lines, and before
	// what annotate inserts.
	frameLine = regexp.MustCompile(`^(?:.*[\]:>0-9]\s+|\s*)(\? )?(?:\[<[0-9a-fx]+>\] )?(\? )?` +
		`(?:(([A-Za-z_][A-Za-z0-9_.$]*)\+0x[0-9a-f]+/0x[0-9a-f]+)|((?:0x)?[0-9a-f]{16})(?: .*)?)` +
		`(?: \[[^\]]*\])?(?: \(([A-Z]+|` + unreliable + `)\))?(?: \(.*\))?\s*$`)

	// marker matches the beginning or end of a stack. registers matches a line of registers: of an interrupted frame or, on
	// arm64, before a trace.
	marker    = regexp.MustCompile(`</?#?[A-Z_]+[0-9]?>\s*$`)
	registers = regexp.MustCompile(`(?:^|\s)(?:RIP|Code|R[A-Z0-9]{2}|x\d+ ?|(?:sp|pc|lr) ?): `)

	// arm64Entry matches the labels at which exceptions enter the kernel on arm64 (arch/arm64/kernel/entry.S). entryInKernel
	// matches the ones for exceptions in the kernel: el1_irq up to Linux 5.13, then el1h_64_irq. Their frame record leads to
	// the instruction that was interrupted.
	arm64Entry    = regexp.MustCompile(`^(?:el[01](?:[ht]_(?:64|32))?_(?:sync|irq|fiq|error)(?:_compat|_invalid)*|__sdei_asm_\w+|tramp_\w+|vectors)$`)
	entryInKernel = regexp.MustCompile(`^el1(?:[ht]_64)?_(?:sync|irq|fiq|error)$`)
)

// unreliable is what some architectures print behind a guess.
const unreliable = "unreliable"

// Next reads the next line.
func (r *Reader) Next(line []byte) {
	r.frame = nil
	if dumpHeader.Match(line) || dumpEnd.Match(line) {
		r.pc = ""
	}
	if pc := printedPC.FindSubmatch(line); pc != nil {
		r.pc = string(pc[1])
	}
	if traceHeader.Match(line) {
		r.trace = trace{begun: true, context: contextOf(line)}
		return
	}
	isRegisters := registers.Match(line)
	isOther := r.trace.begun && contextOf(line) != r.trace.context // another CPU or thread writes in between
	if !isRegisters && (r.trace.begun || bytes.Contains(line, []byte("+0x"))) {
		r.frame = frameOf(line)
	}
	if r.frame != nil && r.frame.function == "" && !r.trace.begun {
		r.frame = nil // an address, perhaps with a name
	}
	switch {
	case r.frame != nil && isOther:
		r.in = trace{}
	case r.frame != nil:
		r.pass()
	case r.trace.begun && !isOther && !isRegisters && !marker.Match(line):
		r.trace, r.pc = trace{}, ""
	}
}

// pass passes a frame of the trace, or one outside of traces.
func (r *Reader) pass() {
	if r.trace.last == "" {
		r.trace.sources = r.frame.source != ""
	}
	r.in = r.trace
	if r.trace.begun {
		r.trace.last = r.frame.place
		if r.frame.function != "" {
			r.trace.last = r.frame.function
		}
	}
}

// frameRole returns the role of the frame in the line that was read last. An empty architecture is not known.
func (r *Reader) frameRole(arch string) Role {
	f, in := r.frame, &r.in
	switch {
	case f.isGuess:
		return Guess
	case f.source == "P": // the pc in registers
		return Exact
	case strings.HasPrefix(f.source, "U"), !in.begun && f.source == "": // its source is unknown
		return Undecided
	case arch == "amd64":
		return Caller
	case arch != "arm64": // others have the registers of interrupted code among the frames
		return Undecided
	case in.sources, f.source != "":
		return Caller
	case in.last == "" && f.place == r.pc: // the trace begins at the registers that were printed before it
		return Exact
	case in.last == "":
		return Undecided
	case entryInKernel.MatchString(in.last) && !arm64Entry.MatchString(f.function):
		return Exact
	case arm64Entry.MatchString(in.last):
		return Undecided
	}
	return Caller
}

func contextOf(line []byte) string {
	if context := printkContext.FindSubmatch(line); context != nil {
		return string(context[1])
	}
	return ""
}

// frameOf returns the frame that a line consists of, nil if it does not.
func frameOf(line []byte) *frame {
	m := frameLine.FindSubmatch(line)
	if m == nil {
		return nil
	}
	f := &frame{place: string(m[3]) + string(m[5]), function: string(m[4]), source: string(m[6])} // either m[3] or m[5] is empty
	f.isGuess = len(m[1])+len(m[2]) > 0 || f.source == unreliable
	return f
}

// Frame returns the function and offset, or the address, of the frame that the line is in a trace. It returns an empty string
// for any other line.
func (r *Reader) Frame() string {
	if r.frame == nil || !r.trace.begun {
		return ""
	}
	return r.frame.place
}

// Roles returns the roles of the addresses in the line that was read last.
func (r *Reader) Roles() *Roles { return &Roles{reader: r} }

// Roles are the roles of the addresses in a line.
type Roles struct {
	reader *Reader
	end    int   // of the part of the line whose marks were read
	mark   *mark // the last one in it, nil if there is none
}

// A mark is a text before addresses that decides their role.
type mark struct {
	text string
	role Role
}

var marks = []mark{
	{"RIP: ", Exact}, {"EIP: ", Exact}, // show_ip in arch/x86/kernel/dumpstack.c
	{"PC is at ", Exact}, {"LR is at ", Caller}, // __show_regs in arch/arm/kernel/process.c
	{"pc : ", Exact}, {"lr : ", Caller}, // __show_regs in arch/arm64/kernel/process.c
	{"NIP [", Exact}, {"LR [", Caller}, {"--- interrupt: ", Exact}, // arch/powerpc/kernel/process.c
	{"WARNING: ", Exact},  // __warn in kernel/panic.c, with the address of a trap
	{"idling at ", Exact}, // nmi_cpu_backtrace in lib/nmi_backtrace.c
}

// beforeCaller is what tracers write before the caller of a function (print_fn_trace in kernel/trace/trace_output.c).
var beforeCaller = []byte("<-")

// At returns the role of the address at an offset of the line, which may have got names in it since it was read. The offsets
// must increase. arch is the architecture of the kernel that wrote the line, as in GOARCH; empty if it is not known.
func (l *Roles) At(line []byte, start int, arch string) Role {
	last := -1
	for i := range marks {
		if at := bytes.LastIndex(line[l.end:start], []byte(marks[i].text)); at > last {
			last, l.mark = at, &marks[i]
		}
	}
	l.end = start
	r := l.reader
	isFrame := r.frame != nil && bytes.HasPrefix(line[start:], []byte(r.frame.place))
	switch {
	case l.mark == nil && isFrame && r.frame.isGuess:
		return Guess
	case r.Policy == AllExact:
		return Exact
	case bytes.HasSuffix(line[:start], beforeCaller):
		return Caller
	case l.mark != nil:
		return l.mark.role
	case isFrame && (r.Policy == ByTrace || r.frame.source == "P"):
		return r.frameRole(arch)
	case r.Policy == AllCallers:
		return Caller
	}
	return Mentioned
}
