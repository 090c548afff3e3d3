package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/kmod"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

type lookup struct {
	procfs, sysfs string
	caller        bool
	snapshot      *symtab.Snapshot
	out           io.Writer
}

func newLookup() *cobra.Command {
	var l lookup
	cmd := &cobra.Command{
		Use:   "lookup [ADDRESS...]",
		Short: "Print the function, offset, module and build id of kernel addresses",
		Long: "Print for each address the function with the offset in it, the module and its build id.\n" +
			"Addresses are hexadecimal. Without arguments they are read from standard input, separated\n" +
			"by white space. An address that no symbol covers gets a question mark for a function.",
		Example: "  kernelsym lookup ffffffff81248080 0xffffffff813c59a6\n" +
			"  awk '{print $1}' addresses | kernelsym lookup --caller",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.out = cmd.OutOrStdout()
			snapshot, err := symcache.Load(cmd.Context(),
				kallsyms.NewSource(l.procfs, l.sysfs),
				bpfprog.NewSource(bpfprog.Options{Procfs: l.procfs, Sysfs: l.sysfs, SourceLines: true, Trampolines: true}),
				kmod.NewSource(l.procfs, l.sysfs, 0, symtab.History{}))
			if err != nil && !known(snapshot) {
				return err
			}
			if err != nil {
				cmd.PrintErrln("Warning:", err)
			}
			l.snapshot = snapshot
			if len(args) > 0 {
				return l.printAll(args)
			}
			return l.printFrom(cmd.InOrStdin())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&l.procfs, "procfs", "/proc", "where the host's /proc is mounted")
	flags.StringVar(&l.sysfs, "sysfs", "/sys", "where the host's /sys is mounted")
	flags.BoolVar(&l.caller, "caller", false, "addresses are return addresses: name the function of the call before them")
	return cmd
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

func (l *lookup) printFrom(r io.Reader) error {
	words := bufio.NewScanner(r)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		if err := l.print(words.Text()); err != nil {
			return err
		}
	}
	return words.Err()
}

func (l *lookup) printAll(args []string) error {
	for _, arg := range args {
		if err := l.print(arg); err != nil {
			return err
		}
	}
	return nil
}

var errAddress = errors.New("not a hexadecimal address of 64 bits")

func (l *lookup) print(arg string) error {
	addr, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(arg), "0x"), 16, 64)
	if err != nil {
		return fmt.Errorf("%w: %q", errAddress, arg)
	}
	line := fmt.Sprintf("%016x ", addr)
	if sym, ok := l.find(addr); ok {
		line += fmt.Sprintf("%s+%#x", sym.Name().Name, addr-sym.Start) + describe(sym, l.called(addr))
	} else if module, ok := l.snapshot.ModuleAt(addr, symtab.Now); ok {
		line += "?" + describe(symtab.Symbol{Module: module}, addr)
	} else {
		line += "?"
	}
	_, err = fmt.Fprintln(l.out, line)
	return err
}

// describe says whose symbol it is, and from which source line the address in it
// comes.
func describe(sym symtab.Symbol, addr uint64) string {
	if m := sym.Module; m != nil {
		return strings.TrimRight(" ["+m.Name+"] "+m.BuildID, " ")
	}
	f := sym.Function
	s := " [" + f.Origin.String() + "]"
	if p := f.Program; p != nil {
		s += fmt.Sprintf(" id %d", p.ID)
	}
	if line := f.Lines.Find(uint32(addr - f.Start)); line >= 0 {
		at := f.Lines.Position(line)
		s += fmt.Sprintf(" %s:%d:%d", at.File, at.Line, at.Column)
	}
	return s
}

// called returns the address of which the source line is wanted.
func (l *lookup) called(addr uint64) uint64 {
	if l.caller {
		return addr - 1
	}
	return addr
}

// find looks an address up, as that of a leaf or, by rule 2.2 of the contract,
// of a caller.
func (l *lookup) find(addr uint64) (symtab.Symbol, bool) {
	if l.caller {
		if sym, ok := l.snapshot.Lookup(addr-1, symtab.Now); ok {
			return sym, true
		}
		sym, ok := l.snapshot.Lookup(addr, symtab.Now)
		return sym, ok && sym.Start == addr
	}
	return l.snapshot.Lookup(addr, symtab.Now)
}
