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
	`([A-Za-z_][A-Za-z0-9_.$]*\+0x[0-9a-f]+/0x[0-9a-f]+)(?: (\[[^<\]][^\]]*\]))?(?: \([A-Z]+\))?`)

// moduleOfFunction matches the module, with its build id if the kernel has CONFIG_STACKTRACE_BUILD_ID.
var moduleOfFunction = regexp.MustCompile(`^\[([A-Za-z0-9_]+)(?: ([0-9a-f]{40}))?\]$`)

// nameOffsets returns a line with the source lines of the offsets in functions that are in it, as far as the packs
// have them. It returns line itself if there is nothing to insert.
func (a *annotator) nameOffsets(ctx context.Context, line []byte) ([]byte, error) {
	var out []byte
	roles := a.traces.Roles()
	copied := 0
	for _, at := range offsetInFunction.FindAllSubmatchIndex(line, -1) {
		group := func(n int) string { return string(line[max(0, at[2*n]):max(0, at[2*n+1])]) }
		text, err := inRole(roles.At(line, at[0]), func(caller bool) (string, error) {
			a.lookup.caller = caller
			return a.sourceOf(ctx, group(1), group(2))
		})
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
