package bpfcost

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/bpf"
)

// A View is the table of BPF programs.
type View struct {
	registry *Registry
	length   time.Duration // of the window that is shown, 0 for all since the start
	batches  []batch       // of the window, oldest first
	sources  Sources
	about    *live.Batch // the last one, without its profiles; nil before the first
	problems []string    // what is not known, and why
	skipped  *Reading    // what the kernel had counted at the last call of Skip since Add; nil without one
}

// Gaps are samples that there are not.
type Gaps struct {
	Lost      uint64 `json:"lost"`      // with other records that the kernel had no room for
	Throttled int    `json:"throttled"` // times that the kernel stopped sampling a CPU for the rest of a tick
}

// batch is what is counted of a live.Batch.
type batch struct {
	counter *Counter
	perCPU  float64
	end     time.Time
	before  Reading // what the kernel had counted until then
	gaps    Gaps
}

// NewView returns a view of the last while, or with 0 of all since the start.
func NewView(r *Registry, length time.Duration) *View {
	v := &View{registry: r, length: length, sources: Sources{Counter: NewCounter(), Counting: r.counting != nil}}
	v.ask()
	v.sources.From = v.sources.To
	return v
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

// Add is of topview.View. A batch counts only if the kernel's symbols are known.
func (v *View) Add(b *live.Batch) error {
	v.resume()
	one := batch{
		counter: NewCounter(), perCPU: b.Possible() / float64(max(b.CPUs, 1)), end: b.End, before: v.sources.To,
		gaps: Gaps{b.Lost, b.Throttled},
	}
	about := *b
	about.Profiles = pprofile.Profiles{} // which may be large
	v.about = &about
	v.ask()
	defer v.beginCounting()
	if b.Core == nil {
		v.sources.From = v.sources.To
		v.problems = append(v.problems, "The kernel's symbols are not known: `kernelsym doctor` says why.")
		return nil
	}
	err := one.counter.Add(b.Profiles, b.Core)
	if v.length == 0 {
		v.sources.add(&one)
		return err
	}
	v.batches = append(v.batches, one)
	for b.End.Sub(v.batches[0].end) >= v.length {
		v.batches = v.batches[1:]
	}
	v.sources.Counter, v.sources.PerCPU, v.sources.Gaps, v.sources.From = NewCounter(), 0, Gaps{}, v.batches[0].before
	for i := range v.batches {
		v.sources.add(&v.batches[i])
	}
	return err
}

// beginCounting lets the kernel's count begin now if it is not known what it was at the start.
func (v *View) beginCounting() {
	if v.sources.From.At.IsZero() {
		v.sources.From = v.sources.To
	}
}

func (s *Sources) add(b *batch) {
	s.Counter.Merge(b.counter)
	s.PerCPU += b.perCPU
	s.Gaps.Lost += b.gaps.Lost
	s.Gaps.Throttled += b.gaps.Throttled
}

// Skip is of topview.View. The kernel counts on meanwhile: Add leaves that out.
func (v *View) Skip() {
	r, _ := v.registry.List() // Add says what is wrong
	v.skipped = &r
}

// resume leaves out what the kernel counted from the last batch that was added to the last one
// that was skipped.
func (v *View) resume() {
	if v.skipped == nil {
		return
	}
	last, skipped := v.sources.To, *v.skipped
	v.sources.From = v.sources.From.plus(last, skipped)
	for i := range v.batches {
		v.batches[i].before = v.batches[i].before.plus(last, skipped)
	}
	v.sources.To, v.skipped = skipped, nil
}

// plus returns a reading with what the kernel counted between two others, of the programs that
// were there at the second. It is the zero value if one of the three is.
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

// allProblems says what is not known, and what is wrong with the numbers.
func (v *View) allProblems() []string {
	lines := slices.Clone(v.problems)
	if n := v.sources.Gaps.Lost; n > 0 {
		lines = append(lines, fmt.Sprintf("The kernel had no room for %s: shares can be too small. Lower -F.",
			plural.Of(int(n), "sample")))
	}
	if n := v.sources.Gaps.Throttled; n > 0 {
		lines = append(lines, topview.Throttled(n))
	}
	if v.about != nil && v.about.Missing != nil {
		lines = append(lines, topview.Missing(v.about.Missing))
	}
	return lines
}

// firstLine leaves out the stack of a panic.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// JSON is what is encoded for other programs.
type JSON struct {
	topview.Sampling
	Gaps
	Seconds   float64  `json:"seconds"`
	PercentOf string   `json:"percent_of"`
	All       Share    `json:"bpf"` // each sample counts once
	Problems  []string `json:"problems,omitempty"`
	Programs  []Row    `json:"programs"`
}

// JSON is of topview.View.
func (v *View) JSON(rows int) any {
	_, running := v.sources.Counter.Samples()
	j := JSON{
		Seconds: v.seconds(), PercentOf: "one CPU", All: v.sources.share(running), Gaps: v.sources.Gaps, Problems: v.allProblems(),
		Programs: append([]Row{}, topview.Limit(v.sources.Rows(ByTotal), rows)...),
	}
	if v.about != nil {
		j.Event, j.Frequency, j.CPUs = v.about.Event, v.about.Frequency, v.about.CPUs
	}
	return j
}

// seconds returns the time that is shown.
func (v *View) seconds() float64 {
	if v.about == nil {
		return 0
	}
	return v.sources.PerCPU / float64(v.about.Frequency)
}
