// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
)

// perfCheck names the check of whether records of loads and unloads can be received.
const perfCheck = "perf events"

func checkPerf(m *machine) []Finding {
	err := m.state.records
	if err == nil {
		return []Finding{{Check: perfCheck, Level: OK, Found: "BPF programs have names from the moment they are loaded"}}
	}
	f := Finding{
		Check: perfCheck, Level: Warn, Found: err.Error(),
		Lost: "names of short-lived BPF programs and of all trampolines; " +
			"frames can lack names between two readings of the list of programs, every 250ms",
		Remedy: m.remedies(err),
	}
	if m.state.listed != nil {
		f.Lost = lost["bpf"].all
	}
	return []Finding{f}
}

// waitsCheck names the check of whether off-CPU time can be sampled, and how large its rings are.
const waitsCheck = "off-CPU time"

// checkWaits must run after checkPerf. Off-CPU time is not sampled unless the operator wants it, so nothing is lost yet.
func checkWaits(m *machine) []Finding {
	switch err := m.state.waits; {
	case m.state.records != nil: // checkPerf says why
		return nil
	case errors.Is(err, kernelstack.ErrRings), errors.Is(err, kernelstack.ErrNames):
		return []Finding{{Check: waitsCheck, Level: Note, Found: "with off_cpu: " + err.Error(), Remedy: m.remedies(err)}}
	case err != nil:
		return []Finding{{Check: waitsCheck, Level: Note, Found: "off_cpu does not work here: " + err.Error(), Remedy: m.remedies(err)}}
	}
	return []Finding{{
		Check: waitsCheck, Level: OK,
		Found: fmt.Sprintf("off_cpu works here; no limit makes its ring buffers (%d KiB) smaller", kernelstack.DefaultSwitchBuffer>>10),
	}}
}

// programsCheck names the check of whether BPF programs can be listed.
const programsCheck = "BPF programs"

func checkBPF(m *machine) []Finding {
	err := m.state.listed
	switch {
	case errors.Is(err, bpf.ErrUnsupported) && len(m.remedies(err)) == 0: // a kernel without BPF
		return []Finding{{Check: programsCheck, Level: Note, Found: err.Error()}}
	case err != nil:
		return []Finding{{
			Check: programsCheck, Level: Warn,
			Found:  err.Error(),
			Lost:   "names of BPF programs loaded before the collector starts, for as long as they run; source lines of all",
			Remedy: m.remedies(err),
		}}
	}
	return []Finding{{Check: programsCheck, Level: OK, Found: plural.Of(m.state.programs, "program") + " listed"}}
}

// eventsCheck names the check of whether events of modules can be received.
const eventsCheck = "module events"

func checkEvents(m *machine) []Finding {
	if err := m.state.events; err != nil {
		return []Finding{{
			Check: eventsCheck, Level: Warn, Found: err.Error(),
			Lost:   "names of modules that are loaded for less than a second: the list of modules is read every second instead",
			Remedy: m.remedies(err),
		}}
	}
	return []Finding{{Check: eventsCheck, Level: OK, Found: "modules have names from the moment they are loaded"}}
}

// checkBlindTime reports records that were lost while symbols were read. It must run after
// checkSymbols.
func checkBlindTime(m *machine) []Finding {
	if m.state.blind == 0 || m.state.records != nil || m.state.events != nil { // in that case it is the time between two readings
		return nil
	}
	return []Finding{{
		Check: "blind time", Level: Warn, Found: fmt.Sprintf("records were lost for %v while symbols were read", m.state.blind),
		Lost:   "names of frames of that time whose addresses may have changed owner",
		Remedy: []string{"see whether the machine is overloaded, or a CPU limit throttles the collector"},
	}}
}

// checkNameless reports BPF programs that have no name because users without CAP_BPF may load
// programs. It must run after checkSymbols.
func checkNameless(m *machine) []Finding {
	if m.state.nameless == 0 {
		return nil
	}
	return []Finding{{
		Check: "nameless programs", Level: Warn,
		Found: plural.Of(m.state.nameless, "BPF program") + " may have been loaded without CAP_BPF; the kernel has no name for such a program",
		Lost:  "the names of these programs, and of those that are loaded before the collector starts",
		Remedy: []string{
			"sysctl -w kernel.unprivileged_bpf_disabled=2, before programs are loaded",
		},
	}}
}

// checkModules reads the list of modules, and the files of one module in sysfs.
func checkModules(m *machine) []Finding {
	list, err := os.ReadFile(filepath.Join(m.procfs, "modules"))
	if errors.Is(err, os.ErrNotExist) && readText(m.state.settings, "sys/kernel/osrelease") == "" {
		m.state.noModules = err
		return []Finding{{Check: "modules", Level: Note, Found: "not known: " + err.Error()}}
	}
	if errors.Is(err, os.ErrNotExist) {
		return []Finding{{Check: "modules", Level: Note, Found: "this kernel has no loadable modules"}}
	}
	f := Finding{Check: "modules", Level: Warn, Lost: "names of code in modules"}
	if err != nil {
		f.Found = err.Error()
		return []Finding{f}
	}
	n := strings.Count(string(list), "\n")
	f.Level, f.Lost, f.Found = OK, "", plural.Of(n, "module")+" loaded"
	name, _, _ := strings.Cut(string(list), " ")
	if n == 0 {
		return []Finding{f}
	}
	dir := filepath.Join(m.sysfs, "module", name, "sections")
	if err := readFiles(dir); err != nil {
		f.Level, f.Lost = Warn, "build ids and file IDs of module frames, or the exact ranges of modules"
		f.Found += ": " + err.Error()
		f.Remedy = m.remedies(err)
	}
	return []Finding{f}
}

// readFiles reads the files of a directory, which only their owner can do.
func readFiles(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := os.ReadFile(filepath.Join(dir, file.Name())); err != nil {
			return err
		}
	}
	return nil
}
