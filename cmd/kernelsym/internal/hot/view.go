// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"fmt"
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
func (v *Functions) Columns() []topview.Column { return v.table().Columns() }

// Sorts implements topview.Table.
func (v *Functions) Sorts() []string { return v.table().Sorts() }

// Rows implements topview.Table.
func (v *Functions) Rows(by string) []topview.Row { return v.table().Rows(by) }

// Detail implements topview.Table. It returns the callers of a function.
func (v *Functions) Detail(key string) topview.Table { return v.table().Detail(key) }

// table returns the table of the functions in the window.
func (v *Functions) table() *functionTable {
	return &functionTable{by: v.by, sums: func() *sums { return v.window.Sum }}
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
