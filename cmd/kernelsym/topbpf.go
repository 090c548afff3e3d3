// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/bpfcost"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

// topBPF are the flags of the view of BPF programs.
type topBPF struct {
	first, stats bool

	countsByDefault bool // neither the event nor the count was chosen
}

// topBPFNames are the names of those flags.
var topBPFNames = []string{"bpf", "stats"}

func (f *topBPF) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.first, "bpf", false, "show what BPF programs cost, not functions; the key b switches between the two")
	flags.BoolVar(&f.stats, "stats", false,
		"with --bpf, also show the kernel's own count of runs, which costs each run about 70 ns; counting ends with the command; on by default where the CPU has no cycle counter")
}

// setDefaults sets what is measured for programs unless flags say it. The cycle counter also samples runs with interrupts
// off; where there is none, the kernel counts runs.
func (f *topBPF) setDefaults(flags *pflag.FlagSet, o *live.Options) {
	if !f.first || flags.Changed("event") {
		return
	}
	o.Event = kernelstack.EventAuto
	f.countsByDefault = !flags.Changed("stats")
}

// functions returns the view of functions over the last length of time, or since the start if
// length is 0.
func (t *top) functions(length time.Duration) topview.View {
	return t.withIdle(hot.NewFunctions(t.measure(), length, t.sort()))
}

// groups returns the view of processes, threads, containers or CPUs.
func (t *top) groups(length time.Duration) topview.View {
	grouping := hot.ByProcess
	if t.by != "" {
		grouping = topGroupings[t.by]
	}
	return t.withIdle(hot.NewGroups(t.measure(), grouping, length, procname.In(t.options.Procfs)))
}

// withIdle makes a new view show idle kernel threads if the flags say so.
func (t *top) withIdle(v topview.Idler) topview.View {
	if t.idle {
		v.ToggleIdle()
	}
	return v
}

// measure says what is counted.
func (t *top) measure() *hot.Measure {
	if t.options.OffCPU {
		return hot.WaitTime
	}
	return hot.CPUTime
}

// programs returns the view of BPF programs, and its data source, which the caller must close.
func (t *top) programs(ctx context.Context, length time.Duration) (topview.View, io.Closer, error) {
	programs, err := bpfcost.Open(ctx, t.options.Procfs, t.options.Sysfs, t.bpf.stats)
	if err != nil {
		return nil, nil, err
	}
	view := bpfcost.NewView(programs, length)
	if t.bpf.countsByDefault && !hasCycles(t.options.Sysfs) {
		view.ToggleCounting()
	}
	return view, programs, nil
}

// hasCycles reports whether the CPU's cycles can be sampled, which also shows code with interrupts off.
func hasCycles(sysfs string) bool {
	rings, err := perfring.Open(perfring.Options{Event: perfring.Sampling{Frequency: 1, Cycles: true}, BytesPerCPU: 1, SysFS: sysfs})
	return err == nil && rings.Close() == nil
}
