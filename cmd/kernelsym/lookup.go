package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/internal/sources"
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
			"by white space. An address that no symbol covers gets a question mark for a function, and\n" +
			"the reason if it is in no module either.",
		Example: "  kernelsym lookup ffffffff81248080 0xffffffff813c59a6\n" +
			"  awk '{print $1}' addresses | kernelsym lookup --caller",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.out = cmd.OutOrStdout()
			snapshot, err := symcache.Load(cmd.Context(), sources.List(sources.Everything(l.procfs, l.sysfs))...)
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
	_, err = fmt.Fprintf(l.out, "%016x %s\n", addr, l.describe(addr))
	return err
}

// describe says what an address is.
func (l *lookup) describe(addr uint64) string {
	hit := l.find(addr)
	switch m := hit.Image; {
	case m == nil:
		return fmt.Sprintf("? (%s)", hit.Reason)
	case m.IsLong() && l.snapshot.Landmarks().SharedTrampolines:
		return fmt.Sprintf("? (in the page of %s, which it shares with other code)", m.Name())
	case hit.Symbol.Image == nil:
		return "?" + owner(m, addr)
	}
	return fmt.Sprintf("%s+%#x", hit.Symbol.Name().Name, addr-hit.Symbol.Start) + owner(hit.Image, l.called(addr))
}

// owner says which image an address is in, and from which source line it comes.
func owner(m *symtab.Image, addr uint64) string {
	if m.Text != nil {
		return strings.TrimRight(" ["+m.Name()+"] "+m.BuildID, " ")
	}
	s := " [" + m.Origin.String() + "]"
	if p := m.Program; p != nil {
		s += fmt.Sprintf(" id %d", p.ID)
	}
	if line := m.Lines.Find(uint32(addr - m.Start)); line >= 0 {
		at := m.Lines.Position(line)
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

// find looks an address up, as that of an exact frame or of a caller
// (contract 2.3).
func (l *lookup) find(addr uint64) symtab.Hit {
	at := l.snapshot.At(addr, symtab.Present)
	if !l.caller {
		return at
	}
	before := l.snapshot.At(addr-1, symtab.Present)
	if before.Symbol.Image == nil && at.Symbol.Image != nil && at.Symbol.Start == addr {
		return at
	}
	return before
}
