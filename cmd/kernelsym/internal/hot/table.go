// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// functionTable is a table of functions.
type functionTable struct {
	measure *Measure
	of      string // whose functions they are; empty for those of the whole machine
	by      string // the default sort key
	sums    func() *sums
}

func (t *functionTable) Title() string { return "kernel functions of " + t.of }

func (t *functionTable) Header() []string {
	s := t.sums()
	if t.measure == WaitTime {
		return []string{t.measure.amount(s.counts.Kernel) + ".", t.measure.legend}
	}
	return []string{
		fmt.Sprintf("%s, %s of all CPU time; %s in user space.",
			plural.Of(int(s.counts.Kernel), "kernel sample"), format(s.counts.Kernel, s.possible), format(s.user, s.possible)),
		t.measure.legend,
	}
}

func (t *functionTable) Columns() []topview.Column {
	return []topview.Column{{Name: "SELF", Right: true}, {Name: "TOTAL", Right: true}, {Name: "FUNCTION"}, {Name: "MODULE"}}
}

func (t *functionTable) Sorts() []string {
	if t.by == ByTotal {
		return []string{ByTotal, BySelf}
	}
	return []string{BySelf, ByTotal}
}

// Rows implements topview.Table. User code and guests are sorted in among the functions, but have
// no bars, because bars compare functions.
func (t *functionTable) Rows(by string) []topview.Row {
	s := t.sums()
	rows := make([]topview.Row, 0, len(s.counts.functions)+2)
	others := s.others()
	for _, fn := range s.counts.sorted(by, t.measure.rank(s.possible)) {
		f := s.counts.functions[fn]
		count := f.self
		if by == ByTotal {
			count = f.total
		}
		for len(others) > 0 && others[0].count > count {
			rows = append(rows, t.row(s, Function{Name: others[0].name}, others[0].count, others[0].count, 0))
			others = others[1:]
		}
		rows = append(rows, t.row(s, fn, f.self, f.total, count))
	}
	for _, o := range others {
		rows = append(rows, t.row(s, Function{Name: o.name}, o.count, o.count, 0))
	}
	return rows
}

// Detail implements topview.Table. It returns the callers of a function.
func (t *functionTable) Detail(key string) topview.Table {
	name, rest, _ := strings.Cut(key, "\x00")
	if name == UserSpace || name == Guests || name == "" {
		return nil
	}
	module, mark, _ := strings.Cut(rest, "\x00")
	return &callers{t, Function{Name: name, Module: module, Before: mark != ""}}
}

// other is a row that stands for no function.
type other struct {
	name  string
	count int64
}

// others returns the other rows that have samples, the one with the most first.
func (s *sums) others() []other {
	list := []other{{UserSpace, s.user}, {Guests, s.counts.Guest}}
	slices.SortStableFunc(list, func(a, b other) int { return cmp.Compare(b.count, a.count) })
	return slices.DeleteFunc(list, func(o other) bool { return o.count == 0 })
}

func (t *functionTable) row(s *sums, fn Function, self, total, bar int64) topview.Row {
	return topview.Row{
		Key:   key(fn),
		Cells: []string{t.measure.share(self, s.possible), t.measure.share(total, s.possible), fn.label(), fn.Module},
		Share: percent(bar, max(s.possible, float64(s.counts.All))) / 100, // many threads can wait at once
	}
}

func format(part int64, of float64) string { return fmt.Sprintf("%.2f%%", percent(part, of)) }

func key(fn Function) string {
	key := fn.Name + "\x00" + fn.Module
	if fn.Before {
		key += "\x00" + sinceBefore
	}
	return key
}

// callers is the table of the callers of a function. Shares are relative to the samples with the
// function.
type callers struct {
	table *functionTable
	of    Function
}

func (c *callers) Title() string {
	if c.table.of != "" {
		return "callers of " + c.of.String() + " in " + c.table.of
	}
	return "callers of " + c.of.String()
}

func (c *callers) Header() []string {
	s := c.table.sums()
	f := s.counts.functions[c.of]
	if f == nil {
		return []string{"No samples now of " + c.of.String() + "."}
	}
	return []string{
		fmt.Sprintf("It was on the stack of %s, %s of %s.",
			c.table.measure.amount(f.total), format(f.total, s.possible), c.table.measure.whole),
		"Percent of these samples. With recursion a sample can have several callers.",
	}
}

func (c *callers) Columns() []topview.Column {
	return []topview.Column{{Name: c.table.measure.unit, Right: true}, {Name: "SHARE", Right: true}, {Name: "CALLER"}, {Name: "MODULE"}}
}

func (c *callers) Sorts() []string { return []string{ByTotal} }

func (c *callers) Rows(string) []topview.Row {
	f := c.table.sums().counts.functions[c.of]
	if f == nil {
		return nil
	}
	list := slices.SortedFunc(maps.Keys(f.callers), func(a, b Function) int {
		return cmp.Or(cmp.Compare(f.callers[b], f.callers[a]), compareFunctions(a, b))
	})
	rows := make([]topview.Row, 0, len(list))
	for _, fn := range list {
		n, of := f.callers[fn], float64(f.total)
		rows = append(rows, topview.Row{
			Key:   key(fn),
			Cells: []string{c.table.measure.number(n), format(n, of), cmp.Or(fn.label(), "[entry]"), fn.Module},
			Share: percent(n, of) / 100,
		})
	}
	return rows
}

func (c *callers) Detail(key string) topview.Table { return c.table.Detail(key) }
