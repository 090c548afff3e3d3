// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// offsetInFunction matches an offset in a function as the kernel prints it (%pS in lib/vsprintf.c), with its module in
// brackets if it has one, and how arm64 found it, in parentheses (dump_backtrace_entry in arch/arm64/kernel/stacktrace.c).
var offsetInFunction = regexp.MustCompile(
	`([A-Za-z_][A-Za-z0-9_.$]*\+0x[0-9a-f]+/0x[0-9a-f]+)(?: (\[[^<\]][^\]]*\]))?(?: \(([A-Z]+)\))?`)

// moduleOfFunction matches the module, with its build id if the kernel has CONFIG_STACKTRACE_BUILD_ID.
var moduleOfFunction = regexp.MustCompile(`^\[([A-Za-z0-9_]+)(?: ([0-9a-f]{40}))?\]$`)

// addressMarks are the texts before an address at which the CPU was, which is exact, and before a return address. An
// address without a mark is a return address.
var addressMarks = []struct {
	text  string
	exact bool
}{
	{"RIP: ", true}, {"EIP: ", true}, // show_ip in arch/x86/kernel/dumpstack.c
	{"PC is at ", true}, {"LR is at ", false}, // __show_regs in arch/arm/kernel/process.c
	{"pc : ", true}, {"lr : ", false}, // __show_regs in arch/arm64/kernel/process.c
	{"NIP [", true}, {"LR [", false}, {"--- interrupt: ", true}, // arch/powerpc/kernel/process.c
	{"WARNING: ", true}, // __warn in kernel/panic.c, with the address of a trap
}

// markReader reads the marks in a line. Its zero value stands at the beginning of a line.
type markReader struct {
	end   int  // of the part that was read
	exact bool // whether the last mark in it is exact
}

// isExact reports whether the address at an offset of the line is one at which the CPU was. The offsets must increase.
func (r *markReader) isExact(line []byte, start int) bool {
	last := -1
	for _, mark := range addressMarks {
		if at := bytes.LastIndex(line[r.end:start], []byte(mark.text)); at > last {
			last, r.exact = at, mark.exact
		}
	}
	r.end = start
	return r.exact
}

// foundInRegisters is how arm64 marks the address of an interrupted frame since Linux 6.13.
const foundInRegisters = "P"

// nameOffsets returns a line with the source lines of the offsets in functions that are in it, as far as the packs
// have them. It returns line itself if there is nothing to insert.
func (a *annotator) nameOffsets(ctx context.Context, line []byte) ([]byte, error) {
	var out []byte
	var marks markReader
	copied := 0
	for _, at := range offsetInFunction.FindAllSubmatchIndex(line, -1) {
		group := func(n int) string { return string(line[max(0, at[2*n]):max(0, at[2*n+1])]) }
		a.lookup.caller = a.caller && !marks.isExact(line, at[0]) && group(3) != foundInRegisters
		text, err := a.sourceOf(ctx, group(1), group(2))
		if err != nil {
			return line, err
		}
		if end := at[1]; text != "" && !bytes.HasPrefix(line[end:], []byte(text)) {
			out = append(append(out, line[copied:end]...), text...)
			copied = end
		}
	}
	if copied == 0 {
		return line, nil
	}
	return append(out, line[copied:]...), nil
}

// sourceOf returns the text to insert behind an offset in a function, empty if its source line is not certain. module is
// in brackets, or empty for a function of the core kernel.
func (a *annotator) sourceOf(ctx context.Context, offset, module string) (string, error) {
	q, err := parseQuery(offset)
	if err != nil {
		return "", nil //nolint:nilerr // such as an offset of more than 4 GiB
	}
	printed := ""
	q.module = timeline.KernelName // the kernel names the module of any other code
	if module != "" {
		m := moduleOfFunction.FindStringSubmatch(module)
		if m == nil {
			return "", nil
		}
		q.module, printed = m[1], m[2]
	}
	if q.build = a.packOf(q.module, printed); q.build == "" {
		return "", nil
	}
	found, err := a.lookup.inPacks(ctx, &q)
	if found == nil || err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range found.Inlined {
		b.WriteString(f.Function + f.String() + " (inlined) ")
	}
	b.WriteString(strings.TrimSpace(found.sourceLine.String()))
	return " (" + printable.Text(b.String()) + ")", nil
}

// inPacks returns the answer of the packs to a query for an offset in a function, or nil if its source line is not certain.
func (l *lookup) inPacks(ctx context.Context, q *query) (*answer, error) {
	answers, err := l.atOffsetInPacks(ctx, q)
	if errors.Is(err, errNoFunction) || err == nil && (len(answers) != 1 || answers[0].File == "") {
		return nil, nil //nolint:nilnil // no pack has it
	} else if err != nil {
		return nil, err
	}
	return answers[0], nil
}
