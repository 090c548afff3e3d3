// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"cmp"
	"slices"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
)

// A Row has everything known about a program or trampoline. What is unknown is left out.
type Row struct {
	ID       uint32            `json:"program_id,omitempty"`
	Type     string            `json:"type,omitempty"`
	Name     string            `json:"name"`
	Tag      string            `json:"tag,omitempty"`
	Gone     bool              `json:"unloaded,omitempty"`
	UID      *uint32           `json:"uid,omitempty"` // of the process that loaded it
	LoadedBy *procname.Process `json:"loaded_by,omitempty"`

	// The results of sampling it. Shares are in percent of one CPU. They are nil if they were not measured: no sample was
	// taken, but the program may have run.
	Self        *Share `json:"self,omitempty"`
	Total       *Share `json:"total,omitempty"`
	Interrupted *Share `json:"interrupted,omitempty"`
	Hottest     *Spot  `json:"hottest_line,omitempty"`

	Counted *Counted `json:"kernel_count,omitempty"`

	key Key
}

// A Share is a number of samples, and its percentage of one CPU.
type Share struct {
	Samples int64   `json:"samples"`
	Percent float64 `json:"percent_of_cpu"`
}

// A Spot is a source line, and its share of a program's Total.
type Spot struct {
	File    string  `json:"file"`
	Line    int64   `json:"line"`
	Percent float64 `json:"percent_of_total"`
}

// Counted is the kernel's own count of a program's runs.
type Counted struct {
	Runs          uint64  `json:"runs"`
	RunsPerSecond float64 `json:"runs_per_second"`
	NanosPerRun   float64 `json:"nanoseconds_per_run,omitempty"` // 0 if there were no runs
	Percent       float64 `json:"percent_of_cpu"`
}

// Sources has the data that rows are made of: the samples, and the kernel's descriptions and
// counts.
type Sources struct {
	Counter  *Counter
	PerCPU   float64 // number of samples of a CPU that was never idle
	Programs map[uint32]Details
	From, To Reading // the kernel's counts; the zero value if it gave none
	Counting bool    // the kernel counts for this command, from From to To and beyond
	Gaps     Gaps

	MissesRuns bool // runs with interrupts off are not sampled
}

// The keys that rows can be sorted by.
const (
	BySelf   = "self"
	ByTotal  = "total"
	ByKernel = "kernel" // by Counted.Percent
)

// Rows returns all loaded programs, and what else has samples: trampolines and programs that were unloaded. The greatest
// comes first.
func (s *Sources) Rows(by string) []Row {
	var rows []Row
	for key, cost := range s.Counter.costs {
		if _, loaded := s.To.Stats[key.ID]; loaded || cost.Self+cost.Total+cost.Interrupted > 0 {
			rows = append(rows, s.row(key, cost))
		}
	}
	for id := range s.To.Stats {
		if key := (Key{ID: id}); s.Counter.costs[key] == nil {
			rows = append(rows, s.row(key, &Cost{}))
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.by(by), a.by(by)), cmp.Compare(b.by(ByTotal), a.by(ByTotal)),
			cmp.Compare(b.by(BySelf), a.by(BySelf)), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.key.Symbol, b.key.Symbol))
	})
	return rows
}

// by returns a row's value of a sort key, in percent of one CPU.
func (r *Row) by(what string) float64 {
	switch {
	case what == BySelf && r.Self != nil:
		return r.Self.Percent
	case what == ByKernel && r.Counted != nil:
		return r.Counted.Percent
	case what == ByTotal && r.Total != nil:
		return r.Total.Percent
	}
	return 0
}

func (s *Sources) row(key Key, cost *Cost) Row {
	d := s.Programs[key.ID]
	r := Row{
		key: key, ID: key.ID, Type: cmp.Or(cost.Type, d.Type), Name: cmp.Or(cost.Name, d.Name), Tag: cmp.Or(cost.Tag, d.Tag),
		Gone: d.Gone, UID: d.Creator, LoadedBy: d.LoadedBy,
		Counted: s.counted(key.ID),
	}
	mayHaveRun, interrupted := r.Counted == nil || r.Counted.Runs > 0, s.share(cost.Interrupted)
	r.Self, r.Total, r.Interrupted = s.measured(cost.Self, mayHaveRun), s.measured(cost.Total, mayHaveRun), &interrupted
	if line, n := cost.Hottest(); n > 0 {
		r.Hottest = &Spot{line.File, line.Line, 100 * float64(n) / float64(cost.Total)}
	}
	return r
}

// measured returns the share of samples of a program's runs, or nil if there may have been runs that are not sampled.
func (s *Sources) measured(samples int64, mayHaveRun bool) *Share {
	if samples == 0 && mayHaveRun && s.MissesRuns {
		return nil
	}
	share := s.share(samples)
	return &share
}

func (s *Sources) share(samples int64) Share {
	if s.PerCPU <= 0 {
		return Share{Samples: samples}
	}
	return Share{samples, 100 * float64(samples) / s.PerCPU}
}

// counted returns the kernel's count of a program's runs. It is nil for a program that was
// unloaded, because its last runs were not read. Without Counting it is always nil, because another
// process may have the kernel count for part of the time.
func (s *Sources) counted(id uint32) *Counted {
	if !s.Counting || s.From.At.IsZero() {
		return nil
	}
	to, there := s.To.Stats[id]
	from, over := s.From.Stats[id], s.To.At.Sub(s.From.At) // from is zero if the program was loaded since
	switch {
	case !there || to.Runs < from.Runs || over <= 0:
		return nil
	case to.Runs == from.Runs:
		return &Counted{}
	}
	runs, nanos := to.Runs-from.Runs, float64(to.RunTime-from.RunTime)
	return &Counted{
		Runs: runs, RunsPerSecond: float64(runs) / over.Seconds(),
		NanosPerRun: nanos / float64(runs), Percent: 100 * nanos / float64(over.Nanoseconds()),
	}
}
