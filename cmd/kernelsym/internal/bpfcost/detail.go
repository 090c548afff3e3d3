// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// detail is the table of a program's source lines. Shares are relative to the program's Total.
type detail struct {
	view *View
	row  Row
}

// Title implements topview.Table.
func (d *detail) Title() string { return "source lines of " + orUnknown(d.row.Name) }

// Header implements topview.Table.
func (d *detail) Header() []string {
	r := &d.row
	about := fmt.Sprintf("%s %s", orUnknown(r.Type), orUnknown(r.Name))
	if r.ID != 0 {
		about += fmt.Sprintf(", id %d, tag %s", r.ID, orUnknown(r.Tag))
	}
	lines := []string{about, "Percent of the samples in the program or in what the line calls."}
	if len(d.cost().lines) == 0 {
		lines[1] = "No source lines are known: programs with BTF have them."
	}
	return lines
}

// cost returns the cost of the program. It is empty if the program is no longer in the window.
func (d *detail) cost() *Cost {
	if cost := d.view.sources.Counter.costs[d.row.key]; cost != nil {
		return cost
	}
	return &Cost{}
}

// Columns implements topview.Table.
func (d *detail) Columns() []topview.Column {
	return []topview.Column{{Name: "SAMPLES", Right: true}, {Name: "SHARE", Right: true}, {Name: "LINE"}}
}

// Sorts implements topview.Table.
func (d *detail) Sorts() []string { return []string{ByTotal} }

// Rows implements topview.Table.
func (d *detail) Rows(string) []topview.Row {
	cost := d.cost()
	samples := cost.lines
	var rows []topview.Row
	for _, line := range slices.SortedFunc(maps.Keys(samples), func(a, b Line) int {
		return cmp.Or(cmp.Compare(samples[b], samples[a]), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	}) {
		share := float64(samples[line]) / float64(cost.Total)
		text := fmt.Sprintf("%s:%d", line.File, line.Line)
		rows = append(rows, topview.Row{
			Key: text, Cells: []string{strconv.FormatInt(samples[line], 10), fmt.Sprintf("%.2f%%", 100*share), text}, Share: share,
		})
	}
	return rows
}

// Detail implements topview.Table.
func (d *detail) Detail(string) topview.Table { return nil }
