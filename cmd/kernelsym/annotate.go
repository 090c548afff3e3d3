// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/addresses"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

func newAnnotate() *cobra.Command {
	var flags resolverFlags
	var builds buildFlags
	cmd := &cobra.Command{
		Use:   "annotate [FILE...]",
		Short: "Copy text and put names on the kernel addresses in it",
		Long: "Copy any text to standard output, and put behind each address of kernel code its function and the\n" +
			"offset in it; for a module, its name, too. An address is 16 hexadecimal digits, with or without\n" +
			"0x. Everything else is copied byte for byte: addresses that already have a name, those that are not\n" +
			"known, and lines of more than a megabyte.\n\n" +
			"With --pack, the source line and the functions inlined there are put behind each address, and behind\n" +
			"each offset in a function, as the kernel prints it in its log: ksys_read+0x6f/0xf0. Packs alone\n" +
			"suffice for the latter. A pack is used only if it is certain that its build wrote the line. A kernel\n" +
			"with CONFIG_STACKTRACE_BUILD_ID prints its build ID at the beginning of each stack dump, and those of\n" +
			"modules on the stack. For other logs, give --build-id or, if the running kernel wrote it, --this-boot.\n\n" +
			"In a kernel log, use --caller. It does not apply to the addresses at which the CPU was: those in lines\n" +
			"with WARNING or interrupt, and behind RIP, EIP, pc, PC and NIP, and functions with (P).\n\n" +
			"Without files, or for the file -, it reads standard input, line by line. An address is named by the\n" +
			"code that has it when its line is read, unless other code had it since the command started. So the\n" +
			"text must be of this boot; with --pack and --text it can be that of another machine.",
		Example: "  sudo bpftrace -e 'kprobe:vfs_read { printf(\"%lx\\n\", reg(\"ip\")) }' | sudo kernelsym annotate\n" +
			"  dmesg | sudo kernelsym annotate --caller\n" +
			"  dmesg | kernelsym annotate --caller --this-boot --pack /var/lib/kernelsym/packs\n" +
			"  kernelsym annotate --caller --pack packs oops.txt\n" +
			"  kernelsym annotate --pack packs --build-id 7f76f39faf07f34c --text ffffffff8be00000 crash.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := flags.resolver(cmd)
			if err != nil {
				return err
			}
			if err = builds.check(r.packs, r.text != 0); err != nil {
				return usage(cmd, err)
			}
			a := annotator{lookup: lookup{resolver: r}, caller: r.caller, addresses: true, warn: r.running.warn}
			if a.log.stated, err = builds.stated(r.packs, flags.sysfs); err != nil {
				return err
			}
			if r.text != 0 {
				a.lookup.kernel = a.log.stated(timeline.KernelName)
			} else {
				stop, err := a.lookup.running.follow(cmd.Context())
				defer stop()
				switch {
				case err != nil && (r.packs == nil || cmd.Context().Err() != nil):
					return errors.Join(missingInputs(args), err)
				case err != nil: // packs alone name offsets in functions
					warn(cmd, fmt.Errorf("addresses get no names: %w", err))
					a.addresses = false
				}
			}
			out := stdout(cmd).Raw() // a copy of the input
			return eachInput(cmd, args, func(in io.Reader) error { return a.annotate(cmd.Context(), in, out) })
		},
	}
	flags.add(cmd)
	builds.add(cmd)
	return cmd
}

// recent limits how much unloaded code is remembered. It is enough to notice that an address had
// other code.
var recent = timeline.Limits{TTL: time.Hour, MaxEntries: 1 << 16}

// follow keeps the snapshot of the kernel current until stop is called.
func (r *running) follow(ctx context.Context) (stop func(), err error) {
	o := sources.Everything(r.procfs, r.sysfs)
	o.History = recent
	cache := symcache.Start(zap.NewNop(), nil, sources.List(o)...) //nolint:contextcheck // it runs until stop is called
	cache.WaitReady(ctx)
	if ctx.Err() != nil {
		return cache.Stop, context.Cause(ctx)
	}
	r.since = perfring.Boottime.Now() // nothing was observed before the first lists
	r.fresh = cache.Fresh
	var errs []error
	for _, h := range cache.Health() {
		if h.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", h.Source, h.Err))
		}
	}
	if err = errors.Join(errs...); err != nil && known(cache.Snapshot()) {
		r.warn(err)
		err = nil
	}
	return cache.Stop, err
}

// replaced reports whether the address that was looked up had other code at any time since follow
// was called.
func (r *running) replaced(s *timeline.Snapshot, hit timeline.Hit, addr uint64) bool {
	if r.fresh == nil || hit.Image == nil || hit.Image.Lifetime.From <= r.since {
		return false
	}
	before, _ := s.At(addr, timeline.Interval{From: r.since, To: hit.Image.Lifetime.From})
	return before.Image != nil || before.Reason != timeline.ReasonUnresolved // unobserved: it may have had other code
}

// maxLine is the length of the longest line that is searched for addresses.
const maxLine = 1 << 20

// annotator names what it finds in text.
type annotator struct {
	lookup    lookup
	caller    bool           // whether addresses are return addresses, except for exact ones
	addresses bool           // whether addresses get names
	log       logBuilds      // the builds that wrote the line
	warn      func(error)    // prints why something gets no name
	warned    map[error]bool // the reasons that warnOnce has printed; nil before the first
}

// The reasons why a line gets no names although there are some.
var (
	errUnknownBuild = errors.New("it gets no names where neither the log nor a flag says which build it is: " +
		"see --build-id and --this-boot")
	errOtherKernel = errors.New("addresses in lines of another kernel get no names")
)

// warnOnce prints a reason for an image, unless it was printed for any.
func (a *annotator) warnOnce(image string, reason error) {
	if a.warned[reason] {
		return
	}
	if a.warned == nil {
		a.warned = make(map[error]bool)
	}
	a.warned[reason] = true
	a.warn(fmt.Errorf("%s: %w", image, reason))
}

// line names what is in a line.
func (a *annotator) line(ctx context.Context, line []byte) ([]byte, error) {
	a.log.read(line)
	if a.addresses {
		var err error
		if line, err = a.nameAddresses(ctx, line); err != nil {
			return line, err
		}
	}
	if a.lookup.packs == nil {
		return line, nil
	}
	return a.nameOffsets(ctx, line)
}

// nameAddresses returns a line with names behind its addresses.
func (a *annotator) nameAddresses(ctx context.Context, line []byte) (named []byte, err error) {
	a.lookup.running.outdated()
	var marks markReader
	named = addresses.Annotate(line, func(addr uint64, start int) addresses.Name {
		a.lookup.caller = a.caller && !marks.isExact(line, start)
		found, errAddress := a.at(ctx, addr)
		if errAddress != nil || found == nil {
			err = errors.Join(err, errAddress)
			return addresses.Name{}
		}
		return found.annotation()
	})
	return named, err
}

// at resolves an address, or returns nil if another kernel may have written it.
func (a *annotator) at(ctx context.Context, addr uint64) (*answer, error) {
	if a.lookup.text != 0 {
		return a.atText(ctx, addr)
	}
	snapshot, err := a.lookup.running.load(ctx)
	if err != nil {
		return nil, err
	}
	running := ""
	if core := snapshot.Core(); core != nil {
		running = core.BuildID()
	}
	if build := a.log.of(timeline.KernelName, ""); build != "" && printedID(build) != printedID(running) {
		a.warnOnce(timeline.KernelName, errOtherKernel)
		return nil, nil //nolint:nilnil // it has no name
	}
	return a.lookup.at(ctx, addr)
}

// atText resolves an address of the kernel whose _text is known: the one that is stated or else the first in the text.
func (a *annotator) atText(ctx context.Context, addr uint64) (*answer, error) {
	build := a.packOf(timeline.KernelName, "")
	if a.lookup.kernel == "" {
		a.lookup.kernel = build
	}
	switch {
	case build == "":
		return nil, nil //nolint:nilnil // it has no name
	case build != a.lookup.kernel:
		a.warnOnce(timeline.KernelName, errOtherKernel)
		return nil, nil //nolint:nilnil // it has no name
	}
	return a.lookup.at(ctx, addr)
}

// packOf returns the build id of the pack of an image that wrote the line, empty if the build is not known or has no
// intact pack. printed is the id that the line has for it.
func (a *annotator) packOf(image, printed string) string {
	build := a.log.of(image, printed)
	if build == "" {
		a.warnOnce(image, errUnknownBuild)
		return ""
	}
	if a.lookup.packs.missing[build] {
		return ""
	}
	found, err := a.lookup.packs.byPrintedID(build)
	if err != nil {
		if a.lookup.packs.missingOnce(build) {
			a.warn(fmt.Errorf("%s: %w", image, err))
		}
		return ""
	}
	return found.pack.Info().BuildID
}

// annotate copies text and names what is in it. It flushes its output before it waits for more input.
func (a *annotator) annotate(ctx context.Context, from io.Reader, to io.Writer) error {
	a.log = logBuilds{stated: a.log.stated}
	in, out := bufio.NewReaderSize(from, maxLine), bufio.NewWriter(to)
	var wrong error
	for tooLong := false; ; {
		line, err := in.ReadSlice('\n')
		isPart := errors.Is(err, bufio.ErrBufferFull)
		if !tooLong && !isPart {
			line, wrong = a.line(ctx, line)
		}
		tooLong = isPart
		_, failed := out.Write(line)
		if in.Buffered() == 0 || err != nil {
			failed = errors.Join(failed, out.Flush())
		}
		switch {
		case failed != nil || wrong != nil:
			return errors.Join(failed, wrong)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !isPart:
			return err
		}
	}
}

// annotation returns the text to insert after an address: the output of lookup in one line.
func (a *answer) annotation() addresses.Name {
	if a.Function == "" {
		return addresses.Name{}
	}
	var b strings.Builder
	for _, f := range a.Inlined {
		b.WriteString(f.Function + f.String() + " (inlined) ")
	}
	b.WriteString(a.name())
	if a.Image != timeline.KernelName {
		b.WriteString(" [" + a.Image + "]")
	}
	b.WriteString(a.sourceLine.String())
	return addresses.Name{Text: printable.Text(b.String()), Function: a.Function}
}
