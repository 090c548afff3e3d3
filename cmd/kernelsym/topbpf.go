package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/bpfcost"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// topBPF are the flags of the view of BPF programs.
type topBPF struct {
	first, stats bool
}

// topBPFNames are the names of those flags.
var topBPFNames = []string{"bpf", "stats"}

func (f *topBPF) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.first, "bpf", false, "show what BPF programs cost, not functions; the key b changes between both")
	flags.BoolVar(&f.stats, "stats", false,
		"with --bpf, also show the kernel's own count of runs, which costs each run some dozen nanoseconds; counting ends with the command")
}

// views returns the views of functions and of BPF programs, the wanted one first, of the last
// while, or with 0 of all since the start. The registry must be closed.
func (t *top) views(length time.Duration) ([]topview.View, *bpfcost.Registry, error) {
	programs, err := bpfcost.Open(t.options.Procfs, t.options.Sysfs, t.bpf.stats)
	if err != nil {
		return nil, nil, err
	}
	views := []topview.View{hot.NewFunctions(length, t.sort()), bpfcost.NewView(programs, length)}
	if t.bpf.first {
		views[0], views[1] = views[1], views[0]
	}
	return views, programs, nil
}
