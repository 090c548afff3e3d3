// SPDX-License-Identifier: Apache-2.0

package kernellog

import (
	"regexp"
	"strings"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Builds follows which builds wrote the lines of a kernel log. A kernel with CONFIG_STACKTRACE_BUILD_ID prints its build id
// in the header of a stack dump (dump_stack_print_info in lib/dump_stack.c), and that of a module behind the functions on
// the stack (__sprint_symbol in kernel/kallsyms.c). A header counts up to the end of its dump, because the next lines can
// be those of another boot:
//
//	WARNING: … at vfs_read+0x200/0x370            stated
//	CPU: 0 PID: 1 Comm: cat … 6.12.90 #1 7f76…    header
//	RIP: 0010:vfs_read+0x200/0x370                7f76…
//	Call Trace:
//	 ksys_read+0x6f/0xf0                          7f76…
//	 xfs_read+0x10/0x20 [xfs 0f1e…]               0f1e…
//	---[ end trace 0000000000000000 ]---          end
//	workqueue: drain+0x0/0x20 hogged CPU          stated
type Builds struct {
	Stated func(image string) string // the build of an image that the user stated, empty for none; nil if nothing can be stated

	core   string // the kernel's id as the dump's header prints it; empty outside of dumps, and if it has none
	traced bool   // the stack of the dump has begun
}

// Next reads the next line.
func (b *Builds) Next(line []byte) {
	header := dumpHeader.FindSubmatch(line)
	switch {
	case header != nil:
		b.core, b.traced = PrintedID(string(header[1])), false
	case dumpEnd.Match(line):
		b.core = ""
	case traceHeader.Match(line):
		if b.traced {
			b.core = ""
		}
		b.traced = true
	}
}

// Of returns the build of an image, empty if it is not known. printed is the id that the line has for it, empty for none.
func (b *Builds) Of(image, printed string) string {
	switch {
	case printed != "":
		return printed
	case b.core != "" && image == timeline.KernelName:
		return b.core
	case b.Stated == nil || b.isOfAnother(b.Stated(timeline.KernelName)):
		return ""
	}
	return b.Stated(image)
}

// isOfAnother reports whether another build of the core kernel wrote the line.
func (b *Builds) isOfAnother(core string) bool {
	return b.core != "" && core != "" && b.core != PrintedID(core)
}

// printedDigits is the length of a build id in a log. The kernel prints 20 bytes (%20phN), with zeros after a shorter id
// and in place of a longer one (BUILD_ID_SIZE_MAX in include/linux/buildid.h, parse_build_id_buf in lib/buildid.c).
const printedDigits = 40

// moduleOfFunction matches the module behind a function, with its build id if the kernel has CONFIG_STACKTRACE_BUILD_ID
// (__sprint_symbol in kernel/kallsyms.c).
var moduleOfFunction = regexp.MustCompile(`^\[([A-Za-z0-9_]+)(?: ([0-9a-f]{40}))?\]$`)

// ParseModule parses what a log has behind a function of a module: [xfs], or [xfs 0f1e…] with the build id as it is printed.
// printed is empty for a module without an id, for which the kernel prints zeros.
func ParseModule(text string) (name, printed string, ok bool) {
	m := moduleOfFunction.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	return m[1], PrintedID(m[2]), true
}

// PrintedID returns a build id as the kernel prints it, empty if that is no id.
func PrintedID(id string) string {
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return id + strings.Repeat("0", max(0, printedDigits-len(id)))
}
