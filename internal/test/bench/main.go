// SPDX-License-Identifier: Apache-2.0

// Command bench measures what this project promises about its speed and memory, on the running
// kernel's own symbols. It prints a line "bench NAME VALUE" for each figure, and ends with a table
// that explains them.
//
// A value is a ratio of two medians: of the measured code and of a reference, which are measured in
// turn in the same run. So it is the same on a fast machine, a slow one and a busy one. The
// reference is the part of the work that cannot be avoided, where there is such a part. Values in
// bytes and counts have their unit in their name.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
)

func main() {
	rounds := flag.Int("rounds", 31, "number of measurements of each kind; the median counts")
	only := flag.String("run", "", "measure only what this regular expression matches; the names are in main.go and rewrite.go")
	scale := flag.String("scale", "", "file with the output of TestManyCPUs of package perfring")
	tool := flag.String("tool", "", "path of the built tool, to measure its command top")
	collector := flag.String("collector", "", "path of the built collector, to measure what its receiver costs beside top and perf")
	child := flag.Bool("sources", false, "run the sources until standard input ends: for the measures of wakeups")
	switches := flag.Int("switches", 0, "make that many context switches a second until standard input ends: for the measures of cost")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the measurements to this file")
	flag.Parse()
	runtime.LockOSThread() // for thread
	if *child {
		runSources(os.Stdin)
		return
	}
	stop, err := startProfile(*profile)
	switch {
	case err != nil:
	case *switches > 0:
		err = runSwitches(*switches, os.Stdin)
	default:
		err = run(*rounds, *only, *scale, *tool, *collector)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is a group of figures that are measured together.
type bench struct {
	name string
	run  func(rounds int) error
}

// startProfile writes a CPU profile until stop is called. Without a file there is none.
func startProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return pprof.StopCPUProfile, nil
}

func run(rounds int, only, scale, tool, collector string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	list, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		return err
	}
	core, err := kallsyms.ParseCore(bytes.NewReader(list), runtime.GOARCH, "", "")
	if err != nil {
		return err
	}
	benches := []bench{
		{"kallsyms", func(rounds int) error { return benchKallsyms(list, core, rounds) }},
		{"modules", benchModules},
		{"lookup", func(rounds int) error { benchLookup(core, rounds); return nil }},
		{"following", func(int) error { benchFollowing(); return nil }},
		{"table", func(rounds int) error { benchTable(rounds); return nil }},
		{"unloads", func(rounds int) error { benchUnloads(rounds); return nil }},
		{"listing", benchListing},
		{"crowd", func(int) error { return benchCrowd() }},
		{"delay", func(int) error { return benchDelay() }},
		{"wakeups", benchWakeups},
		{"start", benchStart},
		{"offcpu", benchOffCPU},
		{"volume", func(int) error { return benchVolume(core) }},
	}
	if tool != "" {
		benches = append(benches, bench{"top", func(rounds int) error { return benchTop(tool, rounds) }})
	}
	if tool != "" && collector != "" {
		benches = append(benches, bench{"cost", func(rounds int) error { return benchOffCPUCost(tool, collector, rounds) }})
	}
	if scale != "" {
		benches = append(benches, bench{"scale", func(int) error { return benchScale(scale) }})
	}
	var errs []error
	for _, b := range append(benches, rewriteBenches(core)...) {
		if wanted.MatchString(b.name) {
			errs = append(errs, b.run(rounds))
		}
	}
	return errors.Join(append(errs, writeTable(os.Stdout, reported))...)
}
