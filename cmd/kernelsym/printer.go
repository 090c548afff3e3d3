// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/term"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// A printer prints changes below a heading.
type printer interface {
	begin() error
	print(c *change) error
}

// hexadecimal is an address that is printed the way the kernel prints it.
type hexadecimal uint64

func (h hexadecimal) String() string { return fmt.Sprintf("%016x", uint64(h)) }

// MarshalText encodes the address as a string, because numbers in JSON have only 53 bits.
func (h hexadecimal) MarshalText() ([]byte, error) { return []byte("0x" + h.String()), nil }

// milliseconds is a duration that is printed in milliseconds.
type milliseconds time.Duration

func (m milliseconds) String() string {
	return strconv.FormatFloat(float64(m)/float64(time.Millisecond), 'f', 1, 64)
}

// MarshalJSON encodes the duration as a number.
//
//nolint:unparam // of json.Marshaler
func (m milliseconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/float64(time.Millisecond), 'f', 3, 64), nil
}

// jsonPrinter prints an object for each change.
type jsonPrinter struct{ out *printable.Printer }

func (jsonPrinter) begin() error { return nil }

func (p jsonPrinter) print(c *change) error { return writeJSON(p.out, c) }

// textPrinter prints a table.
type textPrinter struct {
	out  *printable.Printer
	wide bool
}

// The columns of tables. Columns whose contents can be longer come last. In 80 columns, the narrow
// table has room for the longest name of a BPF function.
const (
	wideColumns   = "%-12s  %s  %-10s  %-16s  %7s  %8s  %8s  %-22s  %s\n"
	narrowColumns = "%-8s %s %-22s %s\n"
	wideEnough    = 146
)

// newTextPrinter returns a printer of wide tables if wide is set or the terminal has room for them,
// and otherwise of narrow tables.
func newTextPrinter(out *printable.Printer, wide bool) textPrinter {
	if f := terminal(out.Raw()); f != nil && !wide {
		width, _, err := term.GetSize(int(f.Fd()))
		wide = err == nil && width >= wideEnough
	}
	return textPrinter{out, wide}
}

func (p textPrinter) begin() error {
	event := fmt.Sprintf("%-6s", "EVENT")
	if !p.wide {
		return p.out.Printf(narrowColumns, "TIME", event, "PROCESS", "NAME")
	}
	return p.out.Printf(wideColumns, "TIME", event, "KIND", "ADDRESS", "BYTES", "PROGRAM", "DELAY/ms", "PROCESS", "NAME")
}

func (p textPrinter) print(c *change) error {
	bytes, program, delay, process := "-", "-", "-", "-"
	if c.Bytes != 0 {
		bytes = strconv.FormatUint(c.Bytes, 10)
	}
	if c.Program != 0 {
		program = strconv.FormatUint(uint64(c.Program), 10)
	}
	if c.Delay != nil {
		delay = c.Delay.String()
	}
	if c.Process != nil {
		process = c.Process.String()
	}
	color := printable.Green
	if c.Event == eventUnload {
		color = printable.Faint
	}
	event := color.Of(fmt.Sprintf("%-6s", c.Event))
	name := cmp.Or(c.Name, unnamedCode)
	if !p.wide {
		return p.out.Printf(narrowColumns, c.Time.Format("15:04:05"), event, process, name)
	}
	return p.out.Printf(wideColumns, c.Time.Format("15:04:05.000"), event, c.Kind, c.Address,
		bytes, program, delay, process, name)
}
