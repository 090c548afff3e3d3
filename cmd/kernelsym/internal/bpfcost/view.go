package bpfcost

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// A View is the table of BPF programs.
type View struct {
	registry *Registry
	length   time.Duration // of the window that is shown, 0 for all since the start
	batches  []batch       // of the window, oldest first
	sources  Sources
	about    *live.Batch // the last one, without its profiles; nil before the first
	problems []string    // what is not known, and why
}

// batch is what is counted of a live.Batch.
type batch struct {
	counter *Counter
	perCPU  float64
	end     time.Time
	before  Reading // what the kernel had counted until then
}

// NewView returns a view of the last while, or with 0 of all since the start.
func NewView(r *Registry, length time.Duration) *View {
	v := &View{registry: r, length: length, sources: Sources{Counter: NewCounter()}}
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
		v.problems = append(v.problems, fmt.Sprintf("Who loads programs is not known: %v", unwatched))
	}
}

// Add is of topview.View. A batch counts only if the kernel's symbols are known.
func (v *View) Add(b *live.Batch) error {
	one := batch{counter: NewCounter(), perCPU: b.Possible() / float64(max(b.CPUs, 1)), end: b.End, before: v.sources.To}
	about := *b
	about.Profiles = pprofile.Profiles{} // which may be large
	v.about = &about
	v.ask()
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
	v.sources.Counter, v.sources.PerCPU, v.sources.From = NewCounter(), 0, v.batches[0].before
	for i := range v.batches {
		v.sources.add(&v.batches[i])
	}
	return err
}

func (s *Sources) add(b *batch) {
	s.Counter.Merge(b.counter)
	s.PerCPU += b.perCPU
}

// JSON is what is encoded for other programs.
type JSON struct {
	Event     string   `json:"event,omitempty"`
	Frequency int      `json:"frequency,omitempty"`
	CPUs      int      `json:"cpus,omitempty"`
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
		Seconds: v.seconds(), PercentOf: "one CPU", All: v.sources.share(running), Problems: v.problems,
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
