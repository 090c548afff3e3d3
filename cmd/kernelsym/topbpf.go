// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/bpfcost"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// topBPF are the flags of the view of BPF programs.
type topBPF struct {
	first, stats bool
}

// topBPFNames are the names of those flags.
var topBPFNames = []string{"bpf", "stats"}

func (f *topBPF) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.first, "bpf", false, "show what BPF programs cost, not functions; the key b switches between the two")
	flags.BoolVar(&f.stats, "stats", false,
		"with --bpf, also show the kernel's own count of runs, which costs each run some dozen nanoseconds; counting ends with the command")
}

// functions returns the view of functions over the last length of time, or since the start if
// length is 0.
func (t *top) functions(length time.Duration) topview.View {
	return hot.NewFunctions(t.measure(), length, t.sort())
}

// groups returns the view of processes, threads, containers or CPUs.
func (t *top) groups(length time.Duration) topview.View {
	grouping := hot.ByProcess
	if t.by != "" {
		grouping = topGroupings[t.by]
	}
	return hot.NewGroups(t.measure(), grouping, length, procname.In(t.options.Procfs))
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
	return bpfcost.NewView(programs, length), programs, nil
}
