package bpfcost

import (
	"cmp"
	"slices"
	"time"
)

// A Row is all that is known of a program or trampoline. What is not known is left out.
type Row struct {
	ID       uint32   `json:"program_id,omitempty"`
	Type     string   `json:"type,omitempty"`
	Name     string   `json:"name"`
	Tag      string   `json:"tag,omitempty"`
	Gone     bool     `json:"unloaded,omitempty"`
	UID      *uint32  `json:"uid,omitempty"` // of the process that loaded it
	LoadedBy *Process `json:"loaded_by,omitempty"`

	Sampled
	Counted *Counted `json:"kernel_count,omitempty"`
}

// Sampled is what samples say of a program. Shares are in percent of one CPU.
type Sampled struct {
	Self        Share  `json:"self"`
	Total       *Share `json:"total,omitempty"`
	Interrupted *Share `json:"interrupted,omitempty"`
	Hottest     *Spot  `json:"hottest_line,omitempty"`
}

// A Share is a number of samples, and what that is of one CPU.
type Share struct {
	Samples int64   `json:"samples"`
	Percent float64 `json:"percent_of_cpu"`
}

// A Spot is a source line, and its part of a program's Total.
type Spot struct {
	File    string  `json:"file"`
	Line    int64   `json:"line"`
	Percent float64 `json:"percent_of_total"`
}

// Counted is what the kernel itself counted of a program's runs.
type Counted struct {
	Runs          uint64  `json:"runs"`
	RunsPerSecond float64 `json:"runs_per_second"`
	NanosPerRun   float64 `json:"nanoseconds_per_run"` // 0 if there were no runs
	Percent       float64 `json:"percent_of_cpu"`
}

// Sources are those of rows: what was sampled, and what the kernel tells.
type Sources struct {
	Counter  *Counter
	PerCPU   float64 // samples that a CPU has given that was never idle
	Programs map[uint32]Details
	Over     time.Duration // for which the kernel has counted, 0 if it has not
}

// Rows returns the programs and trampolines that samples were taken in, and the programs
// that the kernel counted runs of. Those with the largest Total come first; without Total,
// with the largest Self.
func (s *Sources) Rows() []Row {
	var rows []Row
	for key, cost := range s.Counter.costs {
		d, known := s.Programs[key.ID]
		if cost.Self+cost.Total+cost.Interrupted > 0 || known && s.counted(&d) != nil {
			rows = append(rows, s.row(key.ID, cost, &d))
		}
	}
	for id, d := range s.Programs {
		if s.Counter.costs[Key{ID: id}] == nil && s.counted(&d) != nil {
			rows = append(rows, s.row(id, &Cost{}, &d))
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), cmp.Compare(b.Self.Samples, a.Self.Samples),
			cmp.Compare(b.percentCounted(), a.percentCounted()), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

func (r *Row) total() int64 {
	if r.Total == nil {
		return 0
	}
	return r.Total.Samples
}

func (r *Row) percentCounted() float64 {
	if r.Counted == nil {
		return 0
	}
	return r.Counted.Percent
}

func (s *Sources) row(id uint32, cost *Cost, d *Details) Row {
	r := Row{
		ID: id, Type: cmp.Or(cost.Type, d.Type), Name: cmp.Or(cost.Name, d.Name), Tag: cmp.Or(cost.Tag, d.Tag),
		Gone: d.Gone, UID: d.Creator, LoadedBy: d.LoadedBy,
		Sampled: Sampled{Self: s.share(cost.Self)}, Counted: s.counted(d),
	}
	if s.Counter.leaves {
		return r
	}
	total, interrupted := s.share(cost.Total), s.share(cost.Interrupted)
	r.Total, r.Interrupted = &total, &interrupted
	if line, n := cost.Hottest(); n > 0 {
		r.Hottest = &Spot{line.File, line.Line, 100 * float64(n) / float64(cost.Total)}
	}
	return r
}

func (s *Sources) share(samples int64) Share {
	if s.PerCPU <= 0 {
		return Share{Samples: samples}
	}
	return Share{samples, 100 * float64(samples) / s.PerCPU}
}

// counted returns what the kernel counted. It is nil if there were no runs, and for programs
// that are gone: their last runs were not read.
func (s *Sources) counted(d *Details) *Counted {
	stats := d.Stats()
	if s.Over <= 0 || d.Gone || stats.Runs == 0 {
		return nil
	}
	return &Counted{
		Runs: stats.Runs, RunsPerSecond: float64(stats.Runs) / s.Over.Seconds(),
		NanosPerRun: float64(stats.RunTime) / float64(stats.Runs),
		Percent:     100 * float64(stats.RunTime) / float64(s.Over.Nanoseconds()),
	}
}
