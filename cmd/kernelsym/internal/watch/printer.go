// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// milliseconds is a duration that JSON has in milliseconds.
type milliseconds time.Duration

// MarshalJSON encodes the duration as a number.
func (m milliseconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/float64(time.Millisecond), 'f', 3, 64), nil
}

// The columns of the table. In 80 columns, it has room for the longest name of a BPF function.
const columns = "%-8s %s %-22s %s\n"

// A printer prints changes: a table, or an object for each.
type printer struct {
	out  *printable.Printer
	json bool
}

// begin prints the heading.
func (p printer) begin() error {
	if p.json {
		return nil
	}
	return p.out.Printf(columns, "TIME", "EVENT ", "PROCESS", "NAME")
}

func (p printer) print(c *change) error {
	if p.json {
		return p.out.JSON(c, "")
	}
	process, color := "-", printable.Green
	if c.Process != nil {
		process = c.Process.String()
	}
	if c.Event == eventUnload {
		color = printable.Faint
	}
	return p.out.Printf(columns, c.Time.Format("15:04:05"), color.Of(fmt.Sprintf("%-6s", c.Event)), process, cmp.Or(c.Name, printable.NoName))
}
