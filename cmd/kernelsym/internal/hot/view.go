// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// The rows for time outside of the kernel: all user code, and the guests of KVM.
const (
	UserSpace = "[user space]"
	Guests    = "[guest]"
)

// Functions is the view of the hottest functions. Shares are relative to the time of all sampled
// CPUs, idle or not.
type Functions struct {
	window topview.Window[*sums]
	length time.Duration // of the window, 0 for all since the start
	by     string
}

// NewFunctions returns a view over the last length of time, or since the start if length is 0. by
// is the default sort key.
func NewFunctions(length time.Duration, by string) *Functions {
	return &Functions{topview.NewWindow(length, newSums), length, by}
}

// Title implements topview.Table.
func (v *Functions) Title() string { return "kernel functions" }

// Add implements topview.View.
func (v *Functions) Add(b *live.Batch) error {
	counted, err := count(b)
	v.window.Add(b, counted)
	return err
}

// Skip implements topview.View.
func (v *Functions) Skip() {}

// Header implements topview.Table. It describes what was sampled, and what shares are relative to.
func (v *Functions) Header() []string {
	s, last := v.window.Sum, v.window.Last
	if last == nil {
		return []string{"Waiting for the first samples."}
	}
	lines := []string{
		fmt.Sprintf("%s at %d Hz on %s, %s: %d kernel samples, %d lost",
			last.Event, last.Frequency, plural.Of(last.CPUs, "CPU"), v.span(), s.Kernel, s.lost),
		fmt.Sprintf("Percent of all CPU time: kernel %.1f, user space %.1f%s. Frames named: %.1f%%",
			percent(s.Kernel, s.possible), percent(s.user, s.possible), s.guests(), percent(s.Named, float64(s.Frames))),
	}
	return append(lines, v.problems()...)
}

// problems describes what is wrong with the numbers.
func (v *Functions) problems() (lines []string) {
	s := v.window.Sum
	if s.lost > 0 {
		lines = append(lines, "Samples were lost: shares are too small. Lower -F.")
	}
	if s.throttled > 0 {
		lines = append(lines, topview.Throttled(s.throttled))
	}
	if s.Nameless() {
		lines = append(lines, NoNames)
	}
	if err := v.window.Last.Missing; err != nil {
		lines = append(lines, topview.Missing(err))
	}
	return lines
}

// guests returns the guests' share as text, or an empty string if there were no guests.
func (s *sums) guests() string {
	if s.Guest == 0 {
		return ""
	}
	return fmt.Sprintf(", guests %.1f", percent(s.Guest, s.possible))
}

// span returns, as text, the length of time that the numbers cover.
func (v *Functions) span() string {
	elapsed := v.window.Sum.elapsed.Round(100 * time.Millisecond).String()
	if v.length == 0 {
		return elapsed
	}
	return "last " + elapsed
}

// Columns implements topview.Table.
func (v *Functions) Columns() []topview.Column {
	return []topview.Column{{Name: "SELF", Right: true}, {Name: "TOTAL", Right: true}, {Name: "FUNCTION"}, {Name: "MODULE"}}
}

// Sorts implements topview.Table.
func (v *Functions) Sorts() []string {
	if v.by == ByTotal {
		return []string{ByTotal, BySelf}
	}
	return []string{BySelf, ByTotal}
}

// Rows implements topview.Table. User code and guests are sorted in among the functions, but have
// no bars, because bars compare functions.
func (v *Functions) Rows(by string) []topview.Row {
	s := v.window.Sum
	rows := make([]topview.Row, 0, len(s.functions)+2)
	others := s.others()
	for _, fn := range s.sorted(by) {
		f := s.functions[fn]
		count := f.self
		if by == ByTotal {
			count = f.total
		}
		for len(others) > 0 && others[0].count > count {
			rows = append(rows, v.row(Function{Name: others[0].name}, others[0].count, others[0].count, 0))
			others = others[1:]
		}
		rows = append(rows, v.row(fn, f.self, f.total, count))
	}
	for _, o := range others {
		rows = append(rows, v.row(Function{Name: o.name}, o.count, o.count, 0))
	}
	return rows
}

// other is a row that stands for no function.
type other struct {
	name  string
	count int64
}

// others returns the other rows that have samples, the one with the most first.
func (s *sums) others() []other {
	list := []other{{UserSpace, s.user}, {Guests, s.Guest}}
	slices.SortStableFunc(list, func(a, b other) int { return cmp.Compare(b.count, a.count) })
	return slices.DeleteFunc(list, func(o other) bool { return o.count == 0 })
}

func (v *Functions) row(fn Function, self, total, bar int64) topview.Row {
	of := v.window.Sum.possible
	return topview.Row{
		Key:   key(fn),
		Cells: []string{format(self, of), format(total, of), fn.Name, fn.Module},
		Share: percent(bar, of) / 100,
	}
}

func format(part int64, of float64) string { return fmt.Sprintf("%.2f%%", percent(part, of)) }

func key(fn Function) string { return fn.Name + "\x00" + fn.Module }

// Detail implements topview.Table. It returns the callers of a function.
func (v *Functions) Detail(key string) topview.Table {
	name, module, _ := strings.Cut(key, "\x00")
	if name == UserSpace || name == Guests || name == "" {
		return nil
	}
	return &callers{v, Function{name, module}}
}

// JSON implements topview.View.
func (v *Functions) JSON(count int) any {
	s := v.window.Sum
	j := s.json(s.possible, v.by, count)
	j.PercentOf, j.Seconds = "all CPU time", s.elapsed.Seconds()
	j.Samples.User, j.Samples.Lost, j.Samples.Possible = &s.user, &s.lost, s.possible
	j.Samples.Throttled = s.throttled
	if last := v.window.Last; last != nil {
		j.Event, j.Frequency, j.CPUs = last.Event, last.Frequency, last.CPUs
		j.Problems = v.problems()
	}
	return j
}

// callers is the table of the callers of a function. Shares are relative to the samples with the
// function.
type callers struct {
	view *Functions
	of   Function
}

func (c *callers) Title() string { return "callers of " + c.of.String() }

func (c *callers) Header() []string {
	f := c.view.window.Sum.functions[c.of]
	if f == nil {
		return []string{"No samples now of " + c.of.String() + "."}
	}
	return []string{
		fmt.Sprintf("It was on the stack of %d samples, %s of all CPU time.",
			f.total, format(f.total, c.view.window.Sum.possible)),
		"Percent of these samples. With recursion a sample can have several callers.",
	}
}

func (c *callers) Columns() []topview.Column {
	return []topview.Column{{Name: "SAMPLES", Right: true}, {Name: "SHARE", Right: true}, {Name: "CALLER"}, {Name: "MODULE"}}
}

func (c *callers) Sorts() []string { return []string{ByTotal} }

func (c *callers) Rows(string) []topview.Row {
	f := c.view.window.Sum.functions[c.of]
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
			Cells: []string{strconv.FormatInt(n, 10), format(n, of), cmp.Or(fn.Name, "[entry]"), fn.Module},
			Share: percent(n, of) / 100,
		})
	}
	return rows
}

func (c *callers) Detail(key string) topview.Table { return c.view.Detail(key) }
