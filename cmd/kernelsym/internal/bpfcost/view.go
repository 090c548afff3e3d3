// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
)

// A View is the table of BPF programs.
type View struct {
	registry *Registry
	window   topview.Window[*batch]
	sources  Sources
	problems []string // what is unknown, and why
	skipped  *Reading // the kernel's counts at the last call of Skip since Add; nil without one
	length   time.Duration
	refused  error // why the kernel does not count runs; nil if it was not asked, or counts
}

// Gaps counts missing samples.
type Gaps struct {
	Lost      uint64 `json:"lost"`      // samples that the kernel had no room for
	Throttled int    `json:"throttled"` // times that the kernel stopped sampling a CPU until its next tick
}

// batch has the counts of a live.Batch, or of several after Merge.
type batch struct {
	counter *Counter
	perCPU  float64
	before  Reading // the kernel's counts before the batch; of several batches, the first known ones
	gaps    Gaps
}

func newBatch() *batch { return &batch{counter: NewCounter()} }

// Merge adds another batch.
func (b *batch) Merge(o *batch) {
	b.counter.Merge(o.counter)
	b.perCPU += o.perCPU
	if b.before.At.IsZero() {
		b.before = o.before
	}
	b.gaps.Lost, b.gaps.Throttled = b.gaps.Lost+o.gaps.Lost, b.gaps.Throttled+o.gaps.Throttled
}

// NewView returns a view over the last length of time, or since the start if length is 0.
func NewView(r *Registry, length time.Duration) *View {
	v := &View{registry: r, length: length}
	v.begin()
	return v
}

// begin begins the window.
func (v *View) begin() {
	v.window = topview.NewWindow(v.length, newBatch)
	v.sources = Sources{Counter: NewCounter(), Counting: v.registry.counting != nil}
	v.ask()
}

// ToggleCounting implements topview.Counter. The window begins anew, so that the kernel's counts and the samples are of the
// same time.
func (v *View) ToggleCounting() {
	if v.registry.counting != nil {
		v.refused = v.registry.stopCounting()
	} else if v.refused = v.registry.count(); v.refused != nil {
		return
	}
	v.skipped = nil
	v.begin()
}

// ask asks the kernel for all programs.
func (v *View) ask() {
	v.problems = nil
	var err, unwatched error
	if v.sources.To, err = v.registry.List(); err != nil {
		v.problems = append(v.problems, fmt.Sprintf("The kernel does not describe programs: %v", err))
	}
	if v.sources.Programs, unwatched = v.registry.Known(); unwatched != nil {
		v.problems = append(v.problems, "Who loads programs is not known: "+firstLine(unwatched))
	}
}

// Add implements topview.View. A batch counts only if the kernel's symbols are known.
func (v *View) Add(b *live.Batch) {
	v.resume()
	one := &batch{
		counter: NewCounter(), perCPU: b.Possible() / float64(max(b.CPUs, 1)), before: v.sources.To,
		gaps: Gaps{b.Lost, b.Throttled},
	}
	v.ask()
	v.sources.MissesRuns = b.Event == kernelstack.EventClock // the timer is an interrupt
	if b.Core == nil {
		v.window.Note(b)
		v.problems = append(v.problems, "The kernel's symbols are not known: `kernelsym doctor` says why.")
		return
	}
	for _, n := range b.Messages {
		one.counter.Add(n)
	}
	v.window.Add(b, one)
	sum := v.window.Sum
	v.sources.Counter, v.sources.PerCPU, v.sources.Gaps, v.sources.From = sum.counter, sum.perCPU, sum.gaps, sum.before
}

// Skip implements topview.View. The kernel goes on counting; Add leaves these counts out.
func (v *View) Skip() {
	r, _ := v.registry.List() // Add reports the error
	v.skipped = &r
}

// resume leaves out the kernel's counts between the last batch added and the last one skipped.
func (v *View) resume() {
	if v.skipped == nil {
		return
	}
	last, skipped := v.sources.To, *v.skipped
	for _, b := range slices.Concat(v.window.Parts, []*batch{v.window.Sum}) {
		b.before = b.before.plus(last, skipped)
	}
	v.sources.To, v.skipped = skipped, nil
}

// plus returns r plus the kernel's counts between from and to, for the programs that were loaded at
// to. It is the zero value if any of the three is.
func (r Reading) plus(from, to Reading) Reading {
	if r.At.IsZero() || from.At.IsZero() || to.At.IsZero() {
		return Reading{}
	}
	sum := Reading{At: r.At.Add(to.At.Sub(from.At)), Stats: make(map[uint32]bpf.Stats, len(to.Stats))}
	for id, s := range to.Stats {
		sum.Stats[id] = bpf.Stats{
			Runs:    r.Stats[id].Runs + s.Runs - from.Stats[id].Runs,
			RunTime: r.Stats[id].RunTime + s.RunTime - from.Stats[id].RunTime,
		}
	}
	return sum
}

// allProblems lists the reasons for unknown values and wrong numbers.
func (v *View) allProblems() []string {
	lines := slices.Clone(v.problems)
	if v.refused != nil {
		lines = append(lines, "The kernel does not count runs: "+firstLine(v.refused))
	}
	if n := v.sources.Gaps.Lost; n > 0 {
		lines = append(lines, fmt.Sprintf("The kernel had no room for %s: shares can be too small. Lower -F.",
			plural.Of(int(n), "sample")))
	}
	if n := v.sources.Gaps.Throttled; n > 0 {
		lines = append(lines, topview.Throttled(n))
	}
	if v.window.Last != nil && v.window.Last.Missing != nil {
		lines = append(lines, topview.Missing(v.window.Last.Missing))
	}
	return lines
}

// firstLine leaves out the stack of a panic.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// JSON is the output for other programs.
type JSON struct {
	topview.Sampling
	Gaps
	Seconds   float64  `json:"seconds"`
	PercentOf string   `json:"percent_of"`
	All       Share    `json:"bpf"` // each sample counts once
	Problems  []string `json:"problems,omitempty"`
	Programs  []Row    `json:"programs"`
}

// JSON implements topview.View.
func (v *View) JSON(rows int) any {
	_, running := v.sources.Counter.Samples()
	j := JSON{
		Seconds: v.seconds(), PercentOf: "one CPU", All: v.sources.share(running), Gaps: v.sources.Gaps, Problems: v.allProblems(),
		Programs: append([]Row{}, topview.Limit(v.sources.Rows(ByTotal), rows)...),
	}
	if v.window.Last != nil {
		j.Event, j.Frequency, j.CPUs = v.window.Last.Event, v.window.Last.Frequency, v.window.Last.CPUs
	}
	return j
}

// seconds returns the length of time that the view covers.
func (v *View) seconds() float64 {
	if v.window.Last == nil {
		return 0
	}
	return v.sources.PerCPU / float64(v.window.Last.Frequency)
}
