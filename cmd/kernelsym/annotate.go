// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/addresses"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kernellog"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/lookup"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/running"
	"github.com/kernelsym/kernelsym/internal/perfring"
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
			"In the stack traces of a kernel log, frames are return addresses, except for those at which the CPU was;\n" +
			"frames with a question mark get nothing. Where it is not certain whether an address is a return address,\n" +
			"it gets source lines only if they are the same for both. For stacks without \"Call Trace:\" above them, use\n" +
			"--caller. It does not apply to the addresses at which the CPU was: those in lines with WARNING, interrupt\n" +
			"or \"idling at\", and behind RIP, EIP, pc, PC and NIP, and functions with (P). With --caller=false, no address\n" +
			"is a return address.\n\n" +
			"Without files, or for the file -, it reads standard input, line by line. An address is named by the\n" +
			"code that has it when its line is read, unless other code had it since the command started (for a file,\n" +
			"since its first address was read). So the text must be of this boot; with --pack and --text it can be\n" +
			"that of another machine. The kernel is read only if there is an address. With --locate, addresses of the\n" +
			"core kernel get names even if the kernel hides its symbols.",
		Example: "  sudo bpftrace -e 'kprobe:vfs_read { printf(\"%lx\\n\", reg(\"ip\")) }' | sudo kernelsym annotate\n" +
			"  dmesg | sudo kernelsym annotate\n" +
			"  dmesg | kernelsym annotate --this-boot --pack /var/lib/kernelsym/packs\n" +
			"  kernelsym annotate --pack packs oops.txt\n" +
			"  kernelsym annotate --pack packs --build-id 7f76f39faf07f34cfa9fadd801e131bfa8cb6dc3 --text ffffffff8be00000 crash.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := flags.resolver(cmd)
			if err != nil {
				return err
			}
			if err = builds.check(r.Packs, r.Text != 0); err != nil {
				return usage(cmd, err)
			}
			a := annotator{resolver: r, note: func(s string) { stderr(cmd).Printf("%s\n", s) }}
			if cmd.Flags().Changed("caller") {
				a.policy = map[bool]kernellog.Policy{true: kernellog.AllCallers, false: kernellog.AllExact}[r.Caller]
			}
			if a.builds.Stated, err = builds.stated(r.Packs, flags.sysfs); err != nil {
				return err
			}
			if r.Text != 0 {
				r.Build = a.builds.Stated(timeline.KernelName)
			} else {
				a.follower = newFollower(r.Kernel)
				defer a.follower.stop()
			}
			out := stdout(cmd).Raw() // a copy of the input
			err = eachInput(cmd, args, func(in io.Reader) error { return a.annotate(cmd.Context(), in, out) })
			if r.Packs == nil || flags.locate { // otherwise packs alone suffice
				err = errors.Join(err, a.failed)
			}
			return err
		},
	}
	flags.add(cmd)
	builds.add(cmd)
	return cmd
}

// recent limits how much unloaded code is remembered. It is enough to notice that an address had
// other code.
var recent = timeline.Limits{TTL: time.Hour, MaxEntries: 1 << 16}

// A follower keeps the snapshot of a running kernel current.
type follower struct {
	kernel *running.Kernel
	cancel func()
	cache  *symcache.Cache // nil until start
	ready  chan struct{}   // closed when the first lists were read, at the time since
	since  int64
	opened bool
}

func newFollower(k *running.Kernel) *follower {
	return &follower{kernel: k, ready: make(chan struct{})}
}

// start begins to read the kernel, unless it has begun. It waits for nothing.
func (f *follower) start(ctx context.Context) {
	if f.cache != nil {
		return
	}
	f.cache = symcache.Start(zap.NewNop(), nil, f.kernel.Sources(recent)...) //nolint:contextcheck // it runs until stop is called
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		f.cache.WaitReady(ctx)
		f.since = perfring.Boottime.Now() // nothing was observed before the first lists
		close(f.ready)
	}()
}

// open opens the kernel once it is read. The error says why that is impossible; open is not called again after it.
func (f *follower) open(ctx context.Context) error {
	if f.opened {
		return nil
	}
	f.start(ctx)
	<-f.ready
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.kernel.Follow(f.cache.Fresh, f.since)
	f.opened = true
	return f.health()
}

// health returns an error if what is known does not suffice. It warns if some code is not.
func (f *follower) health() error {
	var errs []error
	for _, h := range f.cache.Health() {
		if h.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", h.Source, h.Err))
		}
	}
	err := errors.Join(errs...)
	if err != nil && f.kernel.Suffices(f.cache.Snapshot()) {
		f.kernel.Warn(err)
		return nil
	}
	return err
}

// stop ends what start began.
func (f *follower) stop() {
	if f.cache != nil {
		f.cancel()
		<-f.ready
		f.cache.Stop()
	}
}

// maxLine is the length of the longest line that is searched for addresses.
const maxLine = 1 << 20

// annotator names what it finds in text.
type annotator struct {
	resolver *lookup.Resolver
	follower *follower        // of the kernel whose addresses get names; nil if it is open, or another machine's
	policy   kernellog.Policy // how addresses are read
	failed   error            // why addresses get no names; nil if they do
	builds   kernellog.Builds // that wrote the line
	traces   kernellog.Reader
	warned   map[error]bool // the reasons that warnOnce has printed; nil before the first
	note     func(string)   // prints what packs would add; nil once it has
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
	a.resolver.Kernel.Warn(fmt.Errorf("%s: %w", image, reason))
}

// line names what is in a line.
func (a *annotator) line(ctx context.Context, line []byte) ([]byte, error) {
	a.builds.Next(line)
	a.traces.Next(line)
	if a.failed == nil {
		var err error
		if line, err = a.nameAddresses(ctx, line); err != nil {
			return line, err
		}
	}
	if a.resolver.Packs == nil {
		a.notePacks()
		return line, nil
	}
	return a.nameOffsets(ctx, line)
}

// notePacks prints what packs would add, at the first frame of a trace.
func (a *annotator) notePacks() {
	if frame := a.traces.Frame(); a.note != nil && frame != "" {
		a.note("With --pack, frames of stack traces, such as " + frame + ", get source lines and inlined functions: " +
			"see `kernelsym pack --help`.")
		a.note = nil
	}
}

// nameAddresses returns a line with names behind its addresses.
func (a *annotator) nameAddresses(ctx context.Context, line []byte) (named []byte, err error) {
	a.resolver.Kernel.Outdated()
	roles := a.traces.Roles()
	named = addresses.Annotate(line, func(addr uint64, start int) addresses.Name {
		if err == nil && a.failed == nil {
			err = a.open(ctx)
		}
		if err != nil || a.failed != nil {
			return addresses.Name{}
		}
		var found *lookup.Answer
		found, err = a.inRole(roles.At(line, start, a.arch()), func() (*lookup.Answer, error) { return a.at(ctx, addr) })
		return annotation(found)
	})
	return named, err
}

// open opens the kernel before its first address is named. If it cannot be opened, addresses stay as they are, and the rest is
// done: text is copied, and packs alone name offsets in functions. The error is one of ctx.
func (a *annotator) open(ctx context.Context) error {
	if a.follower == nil {
		return nil
	}
	err := a.follower.open(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	a.failed = fmt.Errorf("addresses get no names: %w", err)
	a.resolver.Kernel.Warn(a.failed)
	return nil
}

// inRole returns the answer to an address in a role, nil if there is none. If the role is not decided, it is what the answers to
// a caller and to an exact address have in common. A guess gets nothing.
func (a *annotator) inRole(role kernellog.Role, look func() (*lookup.Answer, error)) (found *lookup.Answer, err error) {
	if role == kernellog.Guess {
		return nil, nil //nolint:nilnil // it has no name
	}
	a.resolver.Caller = role == kernellog.Caller
	found, err = look()
	switch {
	case err != nil, found == nil, role == kernellog.Exact, role == kernellog.Caller, role == kernellog.Mentioned && found.IsStart():
		return found, err
	}
	a.resolver.Caller = true
	other, err := look()
	if err != nil || other == nil {
		return nil, err
	}
	return found.Common(other), nil
}

// at resolves an address, or returns nil if another kernel may have written it.
func (a *annotator) at(ctx context.Context, addr uint64) (*lookup.Answer, error) {
	if a.resolver.Text != 0 {
		return a.atText(ctx, addr)
	}
	snapshot, err := a.resolver.Kernel.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	running := ""
	if core := snapshot.Core(); core != nil {
		running = core.BuildID()
	}
	if build := a.builds.Of(timeline.KernelName, ""); build != "" && kernellog.PrintedID(build) != kernellog.PrintedID(running) {
		a.warnOnce(timeline.KernelName, errOtherKernel)
		return nil, nil //nolint:nilnil // it has no name
	}
	return a.resolver.At(ctx, addr)
}

// atText resolves an address of the kernel whose _text is known: the one that is stated or else the first in the text.
func (a *annotator) atText(ctx context.Context, addr uint64) (*lookup.Answer, error) {
	core := a.packOf(timeline.KernelName, "")
	if core == nil {
		return nil, nil //nolint:nilnil // it has no name
	}
	build := core.Pack.Info().BuildID
	if a.resolver.Build == "" {
		a.resolver.Build = build
	}
	if build != a.resolver.Build {
		a.warnOnce(timeline.KernelName, errOtherKernel)
		return nil, nil //nolint:nilnil // it has no name
	}
	return a.resolver.At(ctx, addr)
}

// packOf returns the pack of an image that wrote the line, nil if the build is not known or has no intact pack. printed is the
// id that the line has for it.
func (a *annotator) packOf(image, printed string) *packview.Image {
	build := a.builds.Of(image, printed)
	if build == "" {
		a.warnOnce(image, errUnknownBuild)
		return nil
	}
	found, err := a.resolver.Packs.ByPrintedID(build)
	if err != nil {
		a.resolver.Kernel.Warn(fmt.Errorf("%s: %w", image, err))
		return nil
	}
	return found
}

// arch returns the architecture of the kernel whose addresses get names, empty if it is not known.
func (a *annotator) arch() string {
	if a.resolver.Text == 0 {
		return runtime.GOARCH
	}
	if core := a.packOf(timeline.KernelName, ""); core != nil {
		return core.Pack.Info().Arch
	}
	return ""
}

// annotate copies text and names what is in it. It flushes its output before it waits for more input.
func (a *annotator) annotate(ctx context.Context, from io.Reader, to io.Writer) error {
	a.builds, a.traces = kernellog.Builds{Stated: a.builds.Stated}, kernellog.Reader{Policy: a.policy}
	if a.follower != nil && !isFile(from) { // code may change while it waits for the text
		a.follower.start(ctx)
	}
	in, out := bufio.NewReaderSize(from, maxLine), bufio.NewWriter(to)
	var wrong error
	for tooLong := false; ; {
		line, err := in.ReadSlice('\n')
		isPart := errors.Is(err, bufio.ErrBufferFull)
		if !tooLong && !isPart {
			line, wrong = a.line(ctx, line)
		}
		if wrong != nil {
			return errors.Join(wrong, out.Flush())
		}
		tooLong = isPart
		_, failed := out.Write(line)
		if in.Buffered() == 0 || err != nil {
			failed = errors.Join(failed, out.Flush())
		}
		switch {
		case failed != nil:
			return failed
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !isPart:
			return err
		}
	}
}

// annotation returns the text to insert after an address: the output of lookup in one line. a is nil if there is none.
func annotation(a *lookup.Answer) addresses.Name {
	if a == nil || a.Function == "" {
		return addresses.Name{}
	}
	return addresses.Name{Text: printable.Text(a.Text()), Function: a.Function}
}
