package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// lookup looks addresses up, of the running kernel or in packs.
type lookup struct {
	caller  bool
	running running
	packs   *packs // nil without packs
	text    uint64 // address of _text of another machine, 0 without
	out     io.Writer
}

func newLookup() *cobra.Command {
	var l lookup
	var paths []string
	var text string
	cmd := &cobra.Command{
		Use:   "lookup [ADDRESS...]",
		Short: "Print the function, offset, module and build id of kernel addresses",
		Long: "Print for each address the function with the offset in it, the module and its build id.\n" +
			"Without arguments addresses are read from standard input, separated by white space. They are\n" +
			"hexadecimal, and either absolute or relative to an image: vmlinux+0x248080, nf_tables+0x1c, or\n" +
			"with a build id in place of the name. Relative addresses in profiles that kernelsym wrote need\n" +
			"no --caller: they are those of the calls. An address that no symbol covers gets a question\n" +
			"mark for a function, and the reason if it is in no module either.\n\n" +
			"With --pack, the pack of an image adds the functions that were inlined at the address, the\n" +
			"innermost first, and source lines. Relative addresses are then looked up in the packs alone,\n" +
			"so they can be those of another machine, and nothing of this one is read. With --text, so are\n" +
			"absolute addresses, which must be those of a core kernel.",
		Example: "  kernelsym lookup ffffffff81248080 0xffffffff813c59a6\n" +
			"  awk '{print $1}' addresses | kernelsym lookup --caller\n" +
			"  kernelsym lookup --pack /var/lib/kernelsym/packs vmlinux+0x248080",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.out = cmd.OutOrStdout()
			l.running.warn = func(err error) { cmd.PrintErrln("Warning:", err) }
			var err error
			if text != "" {
				if l.text, err = parseAddress(text); err != nil || len(paths) == 0 {
					return usage(cmd, fmt.Errorf("--text is %q: it takes a hexadecimal address, and needs --pack", text))
				}
			}
			if l.packs, err = openPacks(paths); err != nil {
				return err
			}
			if len(args) > 0 {
				return l.printAll(cmd.Context(), args)
			}
			return l.printFrom(cmd.Context(), cmd.InOrStdin())
		},
	}
	machineFlags(cmd, &l.running.procfs, &l.running.sysfs)
	packFlag(cmd, &paths)
	flags := cmd.Flags()
	flags.BoolVar(&l.caller, "caller", false, "addresses are return addresses: name the function of the call before them")
	flags.StringVar(&text, "text", "", "address of _text on the machine of absolute addresses, whose core kernel a pack is of")
	return cmd
}

// running is the kernel of this machine, which is loaded when it is first asked for.
type running struct {
	procfs, sysfs string
	warn          func(error)
	snapshot      *symtab.Snapshot // nil before that
}

// load returns what is known of the kernel.
func (r *running) load(ctx context.Context) (*symtab.Snapshot, error) {
	if r.snapshot != nil {
		return r.snapshot, nil
	}
	snapshot, err := load(ctx, sources.Everything(r.procfs, r.sysfs), r.warn)
	r.snapshot = snapshot
	return snapshot, err
}

// load returns what sources find, and gives what they do not find to warn. The error says why
// they find nothing.
func load(ctx context.Context, o sources.Options, warn func(error)) (*symtab.Snapshot, error) {
	snapshot, err := symcache.Load(ctx, sources.List(o)...)
	if err != nil && !known(snapshot) {
		return nil, err
	}
	if err != nil {
		warn(err)
	}
	return snapshot, nil
}

// known reports whether anything is known of the kernel.
func known(s *symtab.Snapshot) bool {
	for _, t := range s.Tables() {
		if t.Symbols() != [symtab.NumOrigins]int{} {
			return true
		}
	}
	return false
}

func (l *lookup) printFrom(ctx context.Context, r io.Reader) error {
	words := bufio.NewScanner(r)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		if err := l.print(ctx, words.Text()); err != nil {
			return err
		}
	}
	return words.Err()
}

func (l *lookup) printAll(ctx context.Context, args []string) error {
	for _, arg := range args {
		if err := l.print(ctx, arg); err != nil {
			return err
		}
	}
	return nil
}

func (l *lookup) print(ctx context.Context, arg string) error {
	a, err := l.find(ctx, arg)
	if err != nil {
		return err
	}
	_, err = io.WriteString(l.out, a.String())
	return err
}

// find finds what is at an address of any form.
func (l *lookup) find(ctx context.Context, arg string) (*answer, error) {
	image, offset, isRelative, err := parseRelative(arg)
	if err != nil {
		return nil, err
	}
	switch {
	case isRelative && l.packs != nil:
		return l.inPack(image, offset)
	case isRelative:
		return l.relativeToRunning(ctx, image, offset)
	}
	addr, err := parseAddress(arg)
	if err != nil {
		return nil, err
	}
	if l.text == 0 {
		return l.inRunning(ctx, addr)
	}
	return l.inKernelAtText(addr)
}

// inPack looks up an offset in the image of a pack.
func (l *lookup) inPack(name string, offset int64) (*answer, error) {
	image, err := l.packs.named(name)
	if err != nil {
		return nil, err
	}
	return image.at(offset, l.caller, relative(name, offset)), nil
}

// inKernelAtText looks up an address of a core kernel whose _text is known.
func (l *lookup) inKernelAtText(addr uint64) (*answer, error) {
	image, err := l.packs.named(pack.KernelName)
	if err != nil {
		return nil, err
	}
	info := image.Info()
	offset := int64(addr - l.text + info.Text - min(info.Text, info.Stext))
	return image.at(offset, l.caller, hexadecimal(addr).String()), nil
}

var (
	errAddress = errors.New("not a hexadecimal address of 64 bits")
	errImage   = errors.New("this kernel has no image of that name or build id, or several had the name")
)

func parseAddress(s string) (uint64, error) {
	addr, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(s), "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q", errAddress, s)
	}
	return addr, nil
}

// parseRelative parses an address as IMAGE+OFFSET or, for what a module has below its
// .text, IMAGE-OFFSET. It reports false if it has no such form.
func parseRelative(s string) (image string, offset int64, ok bool, err error) {
	i := strings.LastIndexAny(s, "+-")
	if i <= 0 {
		return "", 0, false, nil
	}
	distance, err := parseAddress(s[i+1:])
	if err != nil || distance > 1<<32 {
		return "", 0, false, fmt.Errorf("%w, or an image's name and an offset below 4 GiB: %q", errAddress, s)
	}
	offset = int64(distance)
	if s[i] == '-' {
		offset = -offset
	}
	return s[:i], offset, true, nil
}
