// SPDX-License-Identifier: Apache-2.0

// Package doctor checks a machine in the way that the processor would use it. It reports what
// works, what does not work and is therefore lost, and what to change.
//
// A check is a function that returns findings. Checks of settings only read files. The other checks
// do what the sources do, and report the errors in the words of the sources. What to change is said by
// the remedies, which know this machine.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// Level is the severity of a finding.
type Level string

// The levels of findings.
const (
	OK   Level = "ok"
	Note Level = "note" // nothing is lost by it alone
	Warn Level = "warn" // something is lost
	Fail Level = "fail" // kernel code has no names
)

// A Finding is the result of a check.
type Finding struct {
	Check  string   `json:"check"`
	Level  Level    `json:"level"`
	Found  string   `json:"found"`
	Lost   string   `json:"lost,omitempty"`   // what the processor does not do without it
	Remedy []string `json:"remedy,omitempty"` // one line for each thing to change
}

// A Report is the result of Run.
type Report struct {
	Result   Level     `json:"result"` // the worst level of the findings: ok, warn or fail
	Procfs   string    `json:"procfs"`
	Sysfs    string    `json:"sysfs"`
	Findings []Finding `json:"findings"`
	Details  Details   `json:"details"`
}

// Code returns the exit status for a report: 0 if everything works, 1 if something is lost, 2 if
// kernel code has no names.
func (r *Report) Code() int {
	switch r.Result {
	case Fail:
		return 2
	case Warn:
		return 1
	}
	return 0
}

// Options say what to check.
type Options struct {
	Procfs, Sysfs string // where the machine's /proc and /sys are mounted
	Packs         string // a directory: check which running builds have a pack in it; or empty
	Locate        bool   // where the kernel hides its symbols, locate it with its pack, which must be in Packs
	Metrics       string // URL of a collector's metrics: check for up to 25 s that it delivers samples; or empty
	Version       string // of kernelsym
}

// Run checks a machine.
func Run(ctx context.Context, o Options) Report {
	everything := sources.Everything(o.Procfs, o.Sysfs)
	everything.Locate = o.Locate
	return run(ctx, &machine{
		procfs: o.Procfs, sysfs: o.Sysfs, own: "/proc", packs: o.Packs, locate: o.Locate, metrics: o.Metrics, version: o.Version, pace: usualPace,
		kernel: running{o.Procfs, o.Sysfs}, sources: sources.ListLocating(everything, directory(o.Packs)),
	})
}

// machine is the machine being checked.
type machine struct {
	procfs, sysfs string
	own           string // the /proc of this process
	packs         string // a directory, or empty
	locate        bool   // the source of the core kernel locates it
	metrics       string // a URL, or empty
	version       string // of kernelsym
	pace          pace
	kernel        kernel
	sources       []symcache.Source // the core kernel's source is first

	state state
}

// state has the results of the checks so far.
type state struct {
	settings  string // the /proc that has the settings and this process
	rights    rights
	buildID   string
	hidden    bool  // the symbols of the core kernel cannot be read
	records   error // the error of recording perf events
	programs  int   // number of BPF programs
	listed    error // the error of listing BPF programs
	events    error // the error of receiving kobject events
	waits     error // the error of recording waits, or why more of them may be lost
	noModules error // why it is not known which modules are loaded
	sandbox   bool  // whether this process is in a sandbox with a kernel of its own
	wanted    []right
	blind     time.Duration // blind time while symbols were read
	nameless  int           // BPF functions for which the kernel may have no name
	details   Details
	found     strings.Builder
}

// kernel makes the same system calls as the sources.
type kernel interface {
	recordSymbols() error           // with perf events
	recordWaits() error             // beside these; wraps kernelstack.ErrRings if the rings are smaller than they were meant to be
	listPrograms() (n int, _ error) // BPF programs
	receiveEvents() error           // kobject events
	clocks() (boot, offset int64)   // in nanoseconds; offset plus boot is Unix time
}

func run(ctx context.Context, m *machine) Report {
	m.state.settings = m.procfs
	if readText(m.procfs, "sys/kernel/osrelease") == "" {
		// If only the files that the sources read are mounted there, sysctls and information about
		// this process are in its own /proc.
		if _, err := os.Stat(filepath.Join(m.procfs, "kallsyms")); err == nil {
			m.state.settings = m.own
		}
	}
	m.state.details = Details{Environment: readEnvironment(m), Builds: []Build{}, Programs: make(map[string]int)}
	m.state.rights = readRights(m.state.settings)
	m.state.records, m.state.events = m.kernel.recordSymbols(), m.kernel.receiveEvents()
	m.state.waits = m.kernel.recordWaits()
	m.state.programs, m.state.listed = m.kernel.listPrograms()
	r := Report{Result: OK, Procfs: m.procfs, Sysfs: m.sysfs}
	for _, check := range []func(*machine) []Finding{
		checkUser, checkKernel, checkWhoseKernel, checkUserNamespace, checkBuildID,
		checkPointers, checkLockdown, checkParanoia,
		checkPerf, checkWaits, checkBPF, checkEvents, checkModules, checkClocks,
		func(m *machine) []Finding { return checkSymbols(ctx, m) }, checkBlindTime, checkNameless, checkPacks,
		func(m *machine) []Finding { return checkDelivery(ctx, m) }, checkCapabilities,
	} {
		for _, f := range check(m) {
			m.state.found.WriteString(f.Found + "\n")
			f.Found = withoutAdvice(f.Found)
			r.Findings = append(r.Findings, f)
		}
	}
	r.Details = m.state.details
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank(a) - rank(b) })
	for _, f := range r.Findings {
		if f.Level == Fail || f.Level == Warn && r.Result == OK {
			r.Result = f.Level
		}
	}
	return r
}

// rank orders the findings: causes before effects, and losses before what works. Programs that
// cannot be listed come before other losses, since the profiles show no sign of them (contract 8).
func rank(f Finding) int {
	lost := f.Level == Warn || f.Level == Fail
	switch {
	case f.Check == userCheck:
		return 0
	case lost && (f.Check == whoseCheck || f.Check == namespaceCheck):
		return 1
	case f.Check == pointersCheck && f.Level == Note: // it hides symbols even from those who may read them
		return 2
	case lost && f.Check == programsCheck:
		return 3
	case lost:
		return 4
	case f.Check == capabilitiesCheck && f.Level == Note: // which says how to grant them
		return 5
	}
	return 6
}

// running is the running kernel.
type running struct{ procfs, sysfs string }

func (k running) recordSymbols() error {
	reader, err := perfring.Open(perfring.SymbolOptions(k.sysfs))
	if err != nil {
		return err
	}
	return reader.Close()
}

// recordWaits opens the rings of a collector, in the order in which it opens them.
func (k running) recordWaits() error {
	symbols, err := perfring.Open(perfring.SymbolOptions(k.sysfs))
	if err != nil {
		return err
	}
	defer func() { _ = symbols.Close() }()
	less, err := kernelstack.TryRings(k.procfs, k.sysfs)
	return cmp.Or(err, less)
}

// listPrograms returns the number of programs. It also asks for the first program, since the kernel
// can refuse only that request, or hide the program's address.
func (running) listPrograms() (n int, err error) {
	var reader bpf.Reader
	for id := uint32(0); ; n++ {
		if id, err = reader.Next(id); err != nil {
			return n, ignore(err, io.EOF)
		}
		if n > 0 {
			continue
		}
		if _, err := reader.Program(id, bpf.WantFunctions|bpf.WantLines); ignore(err, bpf.ErrGone) != nil {
			return n, err
		}
	}
}

func (running) receiveEvents() error {
	conn, err := uevent.Dial()
	if err != nil {
		return err
	}
	return conn.Close()
}

func (running) clocks() (boot, offset int64) {
	boot, offset, _ = perfring.Boottime.UnixOffset()
	return boot, offset
}

// ignore returns nil for an error that wraps the expected one.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
