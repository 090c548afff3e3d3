// SPDX-License-Identifier: Apache-2.0

// Package topview defines what the command top can show: tables of samples. It prints a table once;
// package topui shows tables on a terminal.
package topview

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// A Table is a table that top can show. Its methods are called from one goroutine.
type Table interface {
	// Title names the table, such as "functions".
	Title() string

	// Header returns the lines above the table, which explain its numbers.
	Header() []string

	// Columns returns the columns. Columns aligned to the right come first.
	Columns() []Column

	// Sorts returns the keys that the rows can be sorted by, the default first.
	Sorts() []string

	// Rows returns the rows in the order of one of Sorts, the greatest first.
	Rows(sort string) []Row

	// Detail returns a table with the details of the row that has a key, or nil if there are none.
	Detail(key string) Table
}

// A View is a table that batches are added to. A table returned by its Detail always shows the
// current contents of the view.
type View interface {
	Table

	// Add adds a batch.
	Add(b *live.Batch)

	// Skip is called instead of Add for a batch that does not count. The table does not change.
	Skip()

	// JSON returns the output for other programs, with at most rows rows, or all if rows is 0.
	JSON(rows int) any
}

// A Grouper is a view whose rows are groups of samples. NextGrouping groups them by something else.
type Grouper interface {
	View
	NextGrouping()
}

// An Idler is a view that leaves out kernel threads which wait in their main function. ToggleIdle makes it show them, or leave
// them out again.
type Idler interface {
	View
	ToggleIdle()
}

// A Counter is a view to which the kernel can add counts of its own. ToggleCounting makes it begin or end that. Its header
// says so if the kernel refuses.
type Counter interface {
	View
	ToggleCounting()
}

// Sampling describes how this machine was sampled.
type Sampling struct {
	Event     string `json:"event,omitempty"`
	Frequency int    `json:"frequency,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`
	Recorded  *int   `json:"recorded_threads,omitempty"` // threads with events of their own; missing if the whole machine was recorded
}

// A Column is a column of a table.
type Column struct {
	Name  string
	Right bool // aligned to the right, as numbers are; other columns are text, which can be filtered
}

// A Row is a row of a table.
type Row struct {
	Key   string // identifies the row in all tables of the view
	Cells []string
	Share float64 // length of its bar, from 0 to 1
}

// Filter returns the rows whose text matches the expression, or all rows if it is nil.
func Filter(columns []Column, rows []Row, expression *regexp.Regexp) []Row {
	if expression == nil {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
		for i, c := range columns {
			if !c.Right && expression.MatchString(r.Cells[i]) {
				return false
			}
		}
		return true
	})
}

// Print prints a table once, with at most rows rows, or all if rows is 0.
func Print(out *printable.Printer, t Table, sort string, rows int) error {
	return out.Buffered(func(out *printable.Printer) {
		for _, line := range t.Header() {
			out.Printf("%s\n", line)
		}
		out.Printf("\n")
		for _, row := range Cells(t.Columns(), Limit(t.Rows(sort), rows)) {
			out.Printf("%s\n", strings.TrimRight(strings.Join(row, "  "), " "))
		}
	})
}

// Cells returns the column headings, followed by the cells of each row. All are padded to the width of their column.
func Cells(columns []Column, rows []Row) [][]string {
	cells := make([][]string, len(rows)+1)
	for i := range rows {
		cells[i+1] = slices.Clone(rows[i].Cells)
	}
	for i, c := range columns {
		cells[0] = append(cells[0], c.Name)
		width := 0
		for _, r := range cells {
			width = max(width, len([]rune(r[i])))
		}
		for _, r := range cells {
			if c.Right {
				r[i] = fmt.Sprintf("%*s", width, r[i])
			} else {
				r[i] = fmt.Sprintf("%-*s", width, r[i])
			}
		}
	}
	return cells
}

// Limit returns the first n elements of a list, or all if n is 0.
func Limit[T any](list []T, n int) []T {
	if n > 0 && len(list) > n {
		return list[:n]
	}
	return list
}
