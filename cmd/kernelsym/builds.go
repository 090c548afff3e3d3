// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// buildFlags are the flags by which a user states which builds wrote a text.
type buildFlags struct {
	ids      []string
	thisBoot bool
}

func (f *buildFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.ids, "build-id", nil, "build ID of the kernel that wrote the text, or of one of its modules (repeatable)")
	cmd.Flags().BoolVar(&f.thisBoot, "this-boot", false, "the running kernel wrote the text, with the modules that are loaded now")
}

// check validates the flags. hasText reports whether the text is of another machine.
func (f *buildFlags) check(p *packview.Packs, hasText bool) error {
	switch {
	case p == nil && (f.thisBoot || len(f.ids) > 0):
		return errors.New("--build-id and --this-boot need --pack")
	case f.thisBoot && (hasText || len(f.ids) > 0):
		return errors.New("--this-boot excludes --build-id and --text")
	}
	for _, id := range f.ids {
		if !pack.IsBuildID(id) {
			return fmt.Errorf("--build-id is %q: it takes 16 to 64 hexadecimal digits in lower case", id)
		}
	}
	return nil
}

// statedBuilds returns the build of an image, empty if the user has not stated it.
type statedBuilds func(image string) string

// stated returns the builds that the flags state. Each of them must have a pack.
func (f *buildFlags) stated(p *packview.Packs, sysfs string) (statedBuilds, error) {
	if f.thisBoot {
		return runningBuilds(sysfs)
	}
	builds := make(map[string]string)
	for _, id := range f.ids {
		image, err := p.Named(id)
		if err != nil {
			return nil, err
		}
		name := image.Pack.Info().Name
		if other := builds[name]; other != "" && other != id {
			return nil, fmt.Errorf("--build-id has two builds of %s: %s and %s", name, other, id)
		}
		builds[name] = id
	}
	return func(image string) string { return builds[image] }, nil
}

// runningBuilds returns the builds that run here. A module that was another build when an earlier line was read has none.
func runningBuilds(sysfs string) (statedBuilds, error) {
	core, err := packer.RunningBuild(sysfs, "")
	if err == nil && core == "" {
		err = fmt.Errorf("no build id in %s: check that sysfs is mounted there", sysfs)
	}
	if err != nil {
		return nil, err
	}
	earlier := make(map[string]string)
	return func(image string) string {
		if image == timeline.KernelName {
			return core
		}
		id, err := packer.RunningBuild(sysfs, image)
		if err != nil || id == "" || earlier[image] != "" && earlier[image] != id {
			return ""
		}
		earlier[image] = id
		return id
	}, nil
}

// logBuilds follows which builds wrote the lines of a kernel log. A kernel with CONFIG_STACKTRACE_BUILD_ID prints its build id
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
type logBuilds struct {
	stated statedBuilds // nil if nothing can be stated
	core   string       // the kernel's id as the dump's header prints it; empty outside of dumps, and if it has none
	traced bool         // the stack of the dump has begun
}

// dumpHeader matches the header of a dump. A process chooses its name, but that is shorter than a build id.
var dumpHeader = regexp.MustCompile(`CPU: \d+ (?:UID: \d+ )?PID: \d+ Comm: .*?(?: ([0-9a-f]{40}))?\s*$`)

// dumpEnd is in the lines that end a dump, or begin what has no header yet: another dump, a boot, or a part of a log that
// outlived a crash (pstore_dump in fs/pstore/platform.c).
var dumpEnd = regexp.MustCompile(`---\[ end |------------\[ cut here \]|Linux version |^[A-Z][a-z]+#\d+ Part\d+\s*$`)

// dumpStack begins the stack of a dump, on arm64 in lower case. A second one has another header or, like that of a task
// that hangs, none.
var dumpStack = regexp.MustCompile(`Call [Tt]race:`)

// read applies the next line of a log.
func (b *logBuilds) read(line []byte) {
	header := dumpHeader.FindSubmatch(line)
	switch {
	case header != nil:
		b.core, b.traced = printedID(string(header[1])), false
	case dumpEnd.Match(line):
		b.core = ""
	case dumpStack.Match(line):
		if b.traced {
			b.core = ""
		}
		b.traced = true
	}
}

// of returns the build of an image, empty if it is not known. printed is the id that the line has for it.
func (b *logBuilds) of(image, printed string) string {
	switch id := printedID(printed); {
	case id != "":
		return id
	case b.core != "" && image == timeline.KernelName:
		return b.core
	case b.stated == nil || b.isOfAnother(b.stated(timeline.KernelName)):
		return ""
	}
	return b.stated(image)
}

// isOfAnother reports whether another build of the core kernel wrote the line.
func (b *logBuilds) isOfAnother(core string) bool {
	return b.core != "" && core != "" && b.core != printedID(core)
}

// printedDigits is the length of a build id in a log. The kernel prints 20 bytes (%20phN), with zeros after a shorter id
// and in place of a longer one (BUILD_ID_SIZE_MAX in include/linux/buildid.h, parse_build_id_buf in lib/buildid.c).
const printedDigits = 40

// printedID returns a build id as the kernel prints it, empty if that is no id.
func printedID(id string) string {
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return id + strings.Repeat("0", max(0, printedDigits-len(id)))
}
