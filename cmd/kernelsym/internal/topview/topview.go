// SPDX-License-Identifier: Apache-2.0

// Package topview says what the command top can show: tables of what was sampled. It prints
// them once; package topui shows them on a terminal.
package topview

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
)

// A Table is what is shown at a time. Its methods are called from one goroutine.
type Table interface {
	// Title names the table, as "functions".
	Title() string

	// Header returns the lines above the table: what the numbers are of.
	Header() []string

	// Columns returns the columns. Those that are aligned to the right come first.
	Columns() []Column

	// Sorts returns what the rows can be sorted by, the default first.
	Sorts() []string

	// Rows returns the rows, the greatest first by one of Sorts.
	Rows(sort string) []Row

	// Detail returns what is known of the row with a key, nil if there is no more.
	Detail(key string) Table
}

// A View is a table that batches are added to. The table that its Detail returns shows what
// the view has when it is asked.
type View interface {
	Table

	// Add adds a batch.
	Add(b *live.Batch) error

	// Skip is called instead of Add for a batch that does not count. What the table shows
	// stays the same.
	Skip()

	// JSON returns what is encoded for other programs, with so many rows, 0 for all.
	JSON(rows int) any
}

// Sampling says how this machine was sampled.
type Sampling struct {
	Event     string `json:"event,omitempty"`
	Frequency int    `json:"frequency,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`
}

// A Column is one of a table.
type Column struct {
	Name  string
	Right bool // it is aligned to the right, as numbers are; text is not, and can be filtered
}

// A Row is one of a table.
type Row struct {
	Key   string // stands for the row in all tables of the view
	Cells []string
	Share float64 // length of its bar, from 0 to 1
}

// Filter returns the rows in whose text the expression matches, nil for any.
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

// Print prints a table once, with so many rows, 0 for all.
func Print(w io.Writer, t Table, sort string, rows int) error {
	if _, err := fmt.Fprintln(w, strings.Join(t.Header(), "\n")+"\n"); err != nil {
		return err
	}
	for _, row := range Cells(t.Columns(), Limit(t.Rows(sort), rows)) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "  "), " ")); err != nil {
			return err
		}
	}
	return nil
}

// Cells returns the heads of the columns, and then the cells of each row, all padded to the
// width of their column.
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

// EncodeJSON prints what a view returned for other programs.
func EncodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// Limit returns the first n of a list, 0 for all.
func Limit[T any](list []T, n int) []T {
	if n > 0 && len(list) > n {
		return list[:n]
	}
	return list
}
