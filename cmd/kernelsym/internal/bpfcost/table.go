// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// Title implements topview.Table.
func (v *View) Title() string { return "BPF programs" }

// Header implements topview.Table.
func (v *View) Header() []string {
	if v.window.Last == nil {
		return []string{"Waiting for the first samples."}
	}
	_, running := v.sources.Counter.Samples()
	lines := []string{
		fmt.Sprintf("%s at %d Hz on %s, %.1fs: %s in BPF, %s of one CPU", v.window.Last.Event, v.window.Last.Frequency,
			plural.Of(v.window.Last.CPUs, "CPU"), v.seconds(), plural.Of(int(running), "sample"), v.sources.share(running)),
		"Percent of one CPU. TOTAL has what it calls, not the interrupts during it (INTR).",
	}
	switch {
	case v.registry.counting != nil:
		lines = append(lines, "KERNEL, RUNS/S, NS/RUN: the kernel's count, of all processes, with interrupts.")
	case v.sources.MissesRuns:
		lines = append(lines, "?: not measured. Runs with interrupts off are not sampled; --stats or key c counts them.")
	}
	return append(lines, v.allProblems()...)
}

func (s Share) String() string { return fmt.Sprintf("%.2f%%", s.Percent) }

// The texts of cells without a value.
const (
	unknown    = "-"
	unmeasured = "?" // no sample was taken, which does not mean that there were no runs
)

// Columns implements topview.Table.
func (v *View) Columns() []topview.Column {
	columns := []topview.Column{{Name: "SELF", Right: true}, {Name: "TOTAL", Right: true}, {Name: "INTR", Right: true}}
	if v.registry.counting != nil {
		columns = append(columns, topview.Column{Name: "KERNEL", Right: true},
			topview.Column{Name: "RUNS/S", Right: true}, topview.Column{Name: "NS/RUN", Right: true})
	}
	return append(columns, topview.Column{Name: "ID", Right: true},
		topview.Column{Name: "NAME"}, topview.Column{Name: "TYPE"}, topview.Column{Name: "LINE"},
		topview.Column{Name: "UID"}, topview.Column{Name: "LOADED BY"})
}

// Sorts implements topview.Table.
func (v *View) Sorts() []string {
	switch {
	case v.registry.counting == nil:
		return []string{ByTotal, BySelf}
	case v.sources.MissesRuns:
		return []string{ByKernel, ByTotal, BySelf}
	}
	return []string{ByTotal, BySelf, ByKernel}
}

// Rows implements topview.Table.
func (v *View) Rows(by string) []topview.Row {
	list := v.sources.Rows(by)
	rows := make([]topview.Row, 0, len(list))
	for i := range list {
		r := &list[i]
		rows = append(rows, topview.Row{Key: r.key.String(), Cells: v.cells(r), Share: min(1, r.by(by)/100)})
	}
	return rows
}

func (k Key) String() string { return fmt.Sprintf("%d %s", k.ID, k.Symbol) }

func (v *View) cells(r *Row) []string {
	cells := []string{r.Self.cell(), r.Total.cell(), r.Interrupted.cell()}
	if v.registry.counting != nil {
		cells = append(cells, r.Counted.cells()...)
	}
	id, uid, by, line := unknown, unknown, unknown, unknown
	if r.ID != 0 {
		id = strconv.FormatUint(uint64(r.ID), 10)
	}
	if r.UID != nil {
		uid = strconv.FormatUint(uint64(*r.UID), 10)
	}
	if p := r.LoadedBy; p != nil {
		by = p.String()
	}
	if r.Hottest != nil {
		line = fmt.Sprintf("%s:%d", path.Base(r.Hottest.File), r.Hottest.Line)
	}
	name := r.Name
	if r.Gone {
		name = strings.TrimSpace(name + " (unloaded)")
	}
	return append(cells, id, orUnknown(name), orUnknown(r.Type), line, uid, by)
}

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

func (s *Share) cell() string {
	if s == nil {
		return unmeasured
	}
	return s.String()
}

func (c *Counted) cells() []string {
	if c == nil {
		return []string{unknown, unknown, unknown}
	}
	perRun := unknown
	if c.Runs > 0 {
		perRun = fmt.Sprintf("%.0f", c.NanosPerRun)
	}
	return []string{fmt.Sprintf("%.2f%%", c.Percent), fmt.Sprintf("%.1f", c.RunsPerSecond), perRun}
}

// Detail implements topview.Table. It returns the source lines of a program.
func (v *View) Detail(key string) topview.Table {
	rows := v.sources.Rows(ByTotal)
	for i := range rows {
		if rows[i].key.String() == key {
			return &detail{v, rows[i]}
		}
	}
	return nil
}
