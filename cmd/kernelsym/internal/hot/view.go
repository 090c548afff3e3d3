// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"fmt"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
)

// The rows for time outside of the kernel: all user code, and the guests of KVM.
const (
	UserSpace = kernelstack.UserName
	Guests    = kernelstack.GuestName
)

// Functions is the view of the functions in which most time is spent, running or waiting.
type Functions struct {
	measure *Measure
	window  topview.Window[*sums]
	length  time.Duration // of the window, 0 for all since the start
	by      string
	idle    bool // show idle kernel threads, too
}

// NewFunctions returns a view over the last length of time, or since the start if length is 0. by
// is the default sort key.
func NewFunctions(measure *Measure, length time.Duration, by string) *Functions {
	return &Functions{measure: measure, window: topview.NewWindow(length, newSums), length: length, by: by}
}

// ToggleIdle implements topview.Idler. It counts the window anew.
func (v *Functions) ToggleIdle() {
	v.idle = !v.idle
	parts := v.window.Parts
	v.window = topview.NewWindow(v.length, newSums)
	for _, p := range parts {
		v.Add(p.batch)
	}
}

// Title implements topview.Table.
func (v *Functions) Title() string {
	if v.measure == WaitTime {
		return "functions that wait"
	}
	return "kernel functions"
}

// Add implements topview.View.
func (v *Functions) Add(b *live.Batch) { v.window.Add(b, count(b, v.idle)) }

// Skip implements topview.View.
func (v *Functions) Skip() {}

// Header implements topview.Table. It describes what was sampled, and what shares are relative to.
func (v *Functions) Header() []string {
	s, last := v.window.Sum, v.window.Last
	if last == nil {
		return []string{"Waiting for the first samples."}
	}
	if last.OffCPU {
		return append([]string{
			fmt.Sprintf("off-CPU time on %s, %s: %s of waits of at least %s", plural.Of(last.CPUs, "CPU"), v.span(), plural.Of(s.samples, "sample"), last.Threshold),
			fmt.Sprintf("%s In all: %s. Frames named: %.1f%%", v.measure.legend, v.measure.share(s.counts.Kernel, s.possible), percent(s.counts.Named, float64(s.counts.Frames))),
		}, slices.Concat(recorded(last), s.idle.lines(v.length > 0), v.problems())...)
	}
	lines := []string{
		fmt.Sprintf("%s at %d Hz on %s, %s: %s, %d lost",
			last.Event, last.Frequency, plural.Of(last.CPUs, "CPU"), v.span(), plural.Of(int(s.counts.Kernel), "kernel sample"), s.losses.records),
		fmt.Sprintf("Percent of all CPU time: kernel %.1f, user space %.1f%s. Frames named: %.1f%%",
			percent(s.counts.Kernel, s.possible), percent(s.user, s.possible), s.guests(), percent(s.counts.Named, float64(s.counts.Frames))),
	}
	return append(lines, v.problems()...)
}

// problems describes what is wrong with the numbers.
func (v *Functions) problems() (lines []string) {
	s := v.window.Sum
	lines = s.losses.problems(v.window.Last, s.elapsed)
	if s.counts.Nameless() {
		lines = append(lines, noNames)
	}
	if err := v.window.Last.Missing; err != nil {
		lines = append(lines, topview.Missing(err))
	}
	return lines
}

// guests returns the guests' share as text, or an empty string if there were no guests.
func (s *sums) guests() string {
	if s.counts.Guest == 0 {
		return ""
	}
	return fmt.Sprintf(", guests %.1f", percent(s.counts.Guest, s.possible))
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
	return &functionTable{measure: v.measure, by: v.by, sums: func() *sums { return v.window.Sum }}
}

// JSON implements topview.View.
func (v *Functions) JSON(count int) any {
	s := v.window.Sum
	j := s.counts.json(s.possible, v.by, count)
	j.PercentOf, j.Unit, j.Seconds = v.measure.whole, v.measure.jsonUnit, s.elapsed.Seconds()
	j.Samples.User, j.Samples.Lost, j.Samples.Possible = &s.user, &s.losses.records, s.possible
	j.Samples.Throttled, j.Idle = s.losses.throttled, len(s.idle.threads)
	if last := v.window.Last; last != nil {
		j.Event, j.Frequency, j.CPUs, j.Recorded = last.Event, last.Frequency, last.CPUs, last.Recorded
		j.Problems = v.problems()
	}
	return j
}
