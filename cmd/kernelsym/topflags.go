// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// topFlags holds the flags that select what is sampled, as given on the command line. Their letters
// are the ones of perf top.
type topFlags struct {
	processes, threads []uint
	cpus               string
	delay              float64
	packs              []string
	locate             bool
}

// topFlagNames are the names of those flags.
var topFlagNames = []string{"pid", "tid", "cpu", "freq", "delay", "event", "procfs", "sysfs", "off-cpu", "threshold", "pack", "locate"}

// topEvents are the values of --event.
var topEvents = []string{"cpu-clock", "cycles", "auto"}

func (f *topFlags) add(cmd *cobra.Command, o *live.Options) {
	flags := cmd.Flags()
	flags.UintSliceVarP(&f.processes, "pid", "p", nil, "sample only these processes with all their threads, such as 12,34")
	flags.UintSliceVarP(&f.threads, "tid", "t", nil, "sample only these threads")
	flags.StringVarP(&f.cpus, "cpu", "C", "", "sample only these CPUs, such as 0-3,5")
	flags.IntVarP(&o.Frequency, "freq", "F", 199, "samples a second on each CPU")
	flags.Float64VarP(&f.delay, "delay", "d", 2, "seconds between two refreshes")
	flags.StringVarP(&o.Event, "event", "e", "cpu-clock",
		"cpu-clock is a timer; cycles is the CPU's counter, which also samples code with interrupts disabled; auto is cycles where there is one")
	_ = cmd.RegisterFlagCompletionFunc("event", cobra.FixedCompletions(topEvents, cobra.ShellCompDirectiveNoFileComp))
	flags.BoolVar(&o.OffCPU, "off-cpu", false, "show what threads wait for, not what runs")
	flags.DurationVar(&o.Threshold, "threshold", time.Millisecond, "with --off-cpu, leave out shorter waits")
	machineFlags(cmd, &o.Procfs, &o.Sysfs)
	packFlag(cmd, &f.packs)
	locateFlag(cmd, &f.locate)
}

// onCPUFlags are the flags that do not apply with --off-cpu.
var onCPUFlags = []string{"cpu", "freq", "event", "bpf"}

// checkOffCPU checks the flags that do not apply to what is sampled.
func (f *topFlags) checkOffCPU(cmd *cobra.Command, o *live.Options) error {
	changed := cmd.Flags().Changed
	if !o.OffCPU {
		if changed("threshold") {
			return errors.New("--threshold is about waits: it needs --off-cpu")
		}
		return nil
	}
	for _, name := range onCPUFlags {
		if changed(name) {
			return fmt.Errorf("--%s is about what runs: it cannot be used with --off-cpu", name)
		}
	}
	if o.Threshold < 0 {
		return fmt.Errorf("--threshold is %s: it takes a time, such as 1ms, or 0", o.Threshold)
	}
	return nil
}

// checkLocate checks the flags by which the kernel is located.
func (f *topFlags) checkLocate() error {
	if len(f.packs) > 0 && !f.locate {
		return errors.New("--pack is for --locate: the table has no source lines")
	}
	return checkLocate(f.locate, f.packs, false)
}

// first is the time until the first table, unless the delay is shorter.
const first = 500 * time.Millisecond

const (
	minDelay     = 0.1
	maxDelay     = 3600
	maxFrequency = 5000 // beyond it, a machine does little but take samples
)

// apply checks the flags and puts them into the options.
func (f *topFlags) apply(o *live.Options) error {
	switch {
	case !(f.delay >= minDelay && f.delay <= maxDelay): // this form also rejects NaN
		return fmt.Errorf("-d is %g: it takes %g to %d seconds", f.delay, minDelay, maxDelay)
	case o.Frequency < 1 || o.Frequency > maxFrequency:
		return fmt.Errorf("-F is %d: it takes 1 to %d samples a second", o.Frequency, maxFrequency)
	case !slices.Contains(topEvents, o.Event):
		return fmt.Errorf("--event is %q: it takes cpu-clock, cycles or auto", o.Event)
	case len(f.processes)+len(f.threads) > 0 && !procfs.IsOurs(o.Procfs):
		return fmt.Errorf("-p and -t take ids of this process's PID namespace: --procfs %s is of another one", o.Procfs)
	}
	o.Interval = time.Duration(f.delay * float64(time.Second))
	o.First = min(first, o.Interval)
	var errs [3]error
	o.Tasks.PIDs, errs[0] = existing(o.Procfs, kindProcess, f.processes)
	o.Tasks.TIDs, errs[1] = existing(o.Procfs, "thread", f.threads)
	o.CPUs, errs[2] = cpus(o.Sysfs, f.cpus)
	return errors.Join(errs[:]...)
}

const kindProcess = "process"

// existing checks that processes or threads exist.
func existing(procfs, kind string, ids []uint) (checked []uint32, err error) {
	for _, id := range ids {
		switch leader := procname.Leader(procfs, id); {
		case leader == 0:
			return nil, fmt.Errorf("there is no %s %d", kind, id)
		case leader != id && kind == kindProcess: // procfs has a directory for each thread, too
			return nil, fmt.Errorf("%d is a thread of process %d: -p takes processes", id, leader)
		}
		checked = append(checked, uint32(id))
	}
	return checked, nil
}

// cpus parses a list of CPUs and checks that they are online.
func cpus(sysfs, list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	wanted, err := perfring.ParseCPUs(list)
	if err != nil {
		return nil, fmt.Errorf("-C is %q: it takes an ascending list such as 0-3,5", list)
	}
	online, err := perfring.OnlineCPUs(sysfs)
	for _, cpu := range wanted {
		if err == nil && !slices.Contains(online, cpu) {
			return nil, fmt.Errorf("-C: CPU %d is not online; online are %s", cpu, strings.Trim(fmt.Sprint(online), "[]"))
		}
	}
	return wanted, nil
}
