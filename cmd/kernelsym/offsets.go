// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"regexp"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kernellog"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/lookup"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
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
		name, image := a.imageOf(group(2))
		if image == nil {
			continue
		}
		info := image.Pack.Info()
		found, err := a.inRole(roles.At(line, at[0], info.Arch), func() (*lookup.Answer, error) {
			return a.resolver.InPack(ctx, group(1), name, info.BuildID)
		})
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

// imageOf returns the name and the pack of the image that a function is in, no pack if it is not certain which one that is.
// module is in brackets, or empty for a function of the core kernel.
func (a *annotator) imageOf(module string) (name string, image *packview.Image) {
	printed := ""
	name = timeline.KernelName // the kernel names the module of any other code
	if module != "" {
		var ok bool
		if name, printed, ok = kernellog.ParseModule(module); !ok {
			return "", nil
		}
	}
	return name, a.packOf(name, printed)
}
