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

// offsetInFunction matches an offset in a function as the kernel prints it (%pS in lib/vsprintf.c), with its module if it
// has one. Behind that is the build id, if the kernel has CONFIG_STACKTRACE_BUILD_ID.
var offsetInFunction = regexp.MustCompile(
	`([A-Za-z_][A-Za-z0-9_.$]*\+0x[0-9a-f]+/0x[0-9a-f]+)(?: \[([A-Za-z0-9_]+)(?: ([0-9a-f]{16,64}))?\])?`)

// exact are in the lines of an oops or a warning that have the place itself. Other lines have what called it
// (show_iret_regs in arch/x86/kernel/dumpstack_64.c, __show_regs in arch/arm64/kernel/process.c, __warn in kernel/panic.c
// with the address of a trap).
var exact = [][]byte{[]byte("RIP: "), []byte("pc : "), []byte("WARNING: ")}

// annotateOffsets returns a line with the source lines of the offsets in functions that are in it, as far as the packs
// have them. It returns line itself if there is nothing to insert.
func (l *lookup) annotateOffsets(ctx context.Context, line []byte) ([]byte, error) {
	if l.packs == nil {
		return line, nil
	}
	place := *l
	for _, mark := range exact {
		place.caller = place.caller && !bytes.Contains(line, mark)
	}
	var out []byte
	copied := 0
	for _, at := range offsetInFunction.FindAllSubmatchIndex(line, -1) {
		end := at[1]
		q, err := parseQuery(string(line[at[2]:at[3]]))
		if err != nil {
			continue // such as an offset of more than 4 GiB
		}
		q.module = timeline.KernelName // the kernel names the module of any other code
		if at[4] >= 0 {
			q.module = string(line[at[4]:at[5]])
		}
		if at[6] >= 0 {
			q.build = string(line[at[6]:at[7]])
		}
		text, err := place.sourceOf(ctx, &q)
		if err != nil {
			return line, err
		}
		if text != "" && !bytes.HasPrefix(line[end:], []byte(text)) {
			out = append(append(out, line[copied:end]...), text...)
			copied = end
		}
	}
	if copied == 0 {
		return line, nil
	}
	return append(out, line[copied:]...), nil
}

// sourceOf returns the text to insert behind an offset in a function, empty if its source line is not certain.
func (l *lookup) sourceOf(ctx context.Context, q *query) (string, error) {
	a, err := l.inPacks(ctx, q)
	if a == nil || err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range a.Inlined {
		b.WriteString(f.Function + f.String() + " (inlined) ")
	}
	b.WriteString(strings.TrimSpace(a.sourceLine.String()))
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
