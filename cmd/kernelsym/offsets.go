// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"regexp"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kernellog"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/lookup"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// offsetInFunction matches an offset in a function as the kernel prints it (%pS in lib/vsprintf.c), with its module in
// brackets if it has one, and how arm64 found it, in parentheses (dump_backtrace_entry in arch/arm64/kernel/stacktrace.c).
var offsetInFunction = regexp.MustCompile(
	`([A-Za-z_][A-Za-z0-9_.$]*\+0x[0-9a-f]+/0x[0-9a-f]+)(?: (\[[^<\]][^\]]*\]))?(?: \([A-Z]+\))?`)

// nameOffsets returns a line with the source lines of the offsets in functions that are in it, as far as the packs
// have them. It returns line itself if there is nothing to insert.
func (a *annotator) nameOffsets(ctx context.Context, line []byte) ([]byte, error) {
	var out []byte
	roles := a.traces.Roles()
	copied := 0
	for _, at := range offsetInFunction.FindAllSubmatchIndex(line, -1) {
		group := func(n int) string { return string(line[max(0, at[2*n]):max(0, at[2*n+1])]) }
		found, err := a.inRole(roles.At(line, at[0]), func() (*lookup.Answer, error) { return a.sourceOf(ctx, group(1), group(2)) })
		if err != nil {
			return line, err
		}
		if found == nil || found.Source() == "" {
			continue
		}
		text := " (" + printable.Text(found.Source()) + ")"
		if end := at[1]; !bytes.HasPrefix(line[end:], []byte(text)) {
			out = append(append(out, line[copied:end]...), text...)
			copied = end
		}
	}
	if copied == 0 {
		return line, nil
	}
	return append(out, line[copied:]...), nil
}

// sourceOf returns the source line of an offset in a function, nil if it is not certain. module is in brackets, or empty for a
// function of the core kernel.
func (a *annotator) sourceOf(ctx context.Context, offset, module string) (*lookup.Answer, error) {
	image, printed := timeline.KernelName, "" // the kernel names the module of any other code
	if module != "" {
		var ok bool
		if image, printed, ok = kernellog.ParseModule(module); !ok {
			return nil, nil //nolint:nilnil // it has none
		}
	}
	build := a.packOf(image, printed)
	if build == "" {
		return nil, nil //nolint:nilnil // it has none
	}
	return a.resolver.InPack(ctx, offset, image, build)
}
