// SPDX-License-Identifier: Apache-2.0

// Package doctor checks a machine as the processor would use it: what works, what
// is lost without what does not, and what to change.
//
// A check is a function that returns findings. Checks of settings only read files. The other
// checks do what the sources do, and report the sources' errors in their words.
package doctor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// Level is how bad a finding is.
type Level string

// The levels of findings.
const (
	OK   Level = "ok"
	Note Level = "note" // nothing is lost by it alone
	Warn Level = "warn" // something is lost
	Fail Level = "fail" // there are no names of kernel code
)

// A Finding is the result of a check.
type Finding struct {
	Check  string   `json:"check"`
	Level  Level    `json:"level"`
	Found  string   `json:"found"`
	Lost   string   `json:"lost,omitempty"`   // what the processor does not do without it
	Remedy []string `json:"remedy,omitempty"` // one line for each thing to change
}

// A Report is what Run found.
type Report struct {
	Result   Level     `json:"result"` // the worst level of the findings: ok, warn or fail
	Procfs   string    `json:"procfs"`
	Sysfs    string    `json:"sysfs"`
	Findings []Finding `json:"findings"`
	Details  Details   `json:"-"`
}

// Code returns the exit status for a report: 0 if everything works, 1 if something
// is lost, 2 if there are no names of kernel code.
func (r *Report) Code() int {
	switch r.Result {
	case Fail:
		return 2
	case Warn:
		return 1
	}
	return 0
}

// Run checks the machine whose /proc and /sys are mounted at procfs and sysfs, and which of
// its builds have a pack in a directory, unless that is empty.
func Run(ctx context.Context, procfs, sysfs, packs string) Report {
	return run(ctx, &machine{
		procfs: procfs, sysfs: sysfs, own: "/proc", packs: packs, kernel: running{sysfs: sysfs},
		sources: sources.List(sources.Everything(procfs, sysfs)),
	})
}

// machine is what is checked.
type machine struct {
	procfs, sysfs string
	own           string // the /proc of this process
	packs         string // a directory, or empty
	kernel        kernel
	sources       []symcache.Source // that of the core kernel first

	state
}

// state is what the checks have found out.
type state struct {
	settings string // the /proc in which settings and this process are looked up
	rights   rights
	records  error // of perf events
	programs int   // of BPF
	listed   error // of listing them
	events   error // of kobjects
	sandbox  bool  // around this process, with a kernel of its own
	wanted   []right
	blind    time.Duration // while symbols were read
	nameless int           // BPF functions for which the kernel may have no name
	details  Details
	found    strings.Builder
}

// kernel does what the sources do with system calls.
type kernel interface {
	recordSymbols() error           // with perf events
	listPrograms() (n int, _ error) // of BPF
	receiveEvents() error           // of kobjects
	clocks() (boot, offset int64)   // in nanoseconds; what is to be added for Unix time
}

func run(ctx context.Context, m *machine) Report {
	m.settings = m.procfs
	if readText(m.procfs, "sys/kernel/osrelease") == "" {
		// Where only the files that the sources read are mounted, sysctls and what else
		// says something of this process stand in its own /proc.
		if _, err := os.Stat(filepath.Join(m.procfs, "kallsyms")); err == nil {
			m.settings = m.own
		}
	}
	m.details = Details{Builds: []Build{}, Programs: make(map[string]int)}
	m.rights = readRights(m.settings)
	m.records, m.events = m.kernel.recordSymbols(), m.kernel.receiveEvents()
	m.programs, m.listed = m.kernel.listPrograms()
	r := Report{Result: OK, Procfs: m.procfs, Sysfs: m.sysfs}
	for _, check := range []func(*machine) []Finding{
		checkUser, checkKernel, checkWhoseKernel, checkUserNamespace, checkBuildID,
		checkPointers, checkLockdown, checkParanoia,
		checkPerf, checkBPF, checkEvents, checkModules, checkClocks,
		func(m *machine) []Finding { return checkSymbols(ctx, m) }, checkBlindTime, checkNameless, checkPacks, checkCapabilities,
	} {
		for _, f := range check(m) {
			m.found.WriteString(f.Found + "\n")
			r.Findings = append(r.Findings, f)
		}
	}
	r.Details = m.details
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank(a) - rank(b) })
	for _, f := range r.Findings {
		if f.Level == Fail || f.Level == Warn && r.Result == OK {
			r.Result = f.Level
		}
	}
	return r
}

// rank orders the findings: causes before what they cause, and what is lost before what works.
// Programs that cannot be listed come before other losses, since the profiles show no sign of them
// (contract 8).
func rank(f Finding) int {
	lost := f.Level == Warn || f.Level == Fail
	switch {
	case f.Check == userCheck:
		return 0
	case lost && (f.Check == whoseCheck || f.Check == namespaceCheck):
		return 1
	case lost && f.Check == programsCheck:
		return 2
	case lost:
		return 3
	case f.Check == capabilitiesCheck && f.Level == Note: // which says how to grant them
		return 4
	}
	return 5
}

// running is the running kernel.
type running struct{ sysfs string }

func (k running) recordSymbols() error {
	reader, err := perfring.Open(perfring.SymbolOptions(k.sysfs))
	if err != nil {
		return err
	}
	return reader.Close()
}

// listPrograms also asks for the first program, since the kernel can refuse that
// alone, or hide where it lies. It returns the number of programs.
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
