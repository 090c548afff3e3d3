package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernelsym/kernelsym/internal/bpf"
)

func checkPerf(m *machine) []Finding {
	err := m.records
	if err == nil {
		return []Finding{{Check: "perf events with KSYMBOL", Level: OK, Found: "BPF programs are named from the moment they are loaded"}}
	}
	return []Finding{{
		Check: "perf events with KSYMBOL", Level: Warn, Found: err.Error(),
		Lost:   "names of short-lived BPF programs and of all trampolines: the list of programs is read every 250ms instead",
		Remedy: m.remedies(err),
	}}
}

// programsCheck is the check whether BPF programs can be listed.
const programsCheck = "bpf(2)"

func checkBPF(m *machine) []Finding {
	n, err := m.kernel.listPrograms()
	switch {
	case errors.Is(err, bpf.ErrUnsupported):
		return []Finding{{Check: programsCheck, Level: Note, Found: err.Error()}}
	case err != nil:
		return []Finding{{
			Check: programsCheck, Level: Warn,
			Found:  "BPF programs loaded before the collector starts have no names: " + err.Error(),
			Lost:   "names of these programs for as long as they run; source lines of all BPF programs",
			Remedy: m.remedies(err),
		}}
	}
	return []Finding{{Check: programsCheck, Level: OK, Found: counted(n, "program") + " listed"}}
}

func checkEvents(m *machine) []Finding {
	if err := m.events; err != nil {
		return []Finding{{
			Check: "netlink", Level: Warn, Found: err.Error(),
			Lost:   "names of modules that are there for less than a second: the list of modules is read every second instead",
			Remedy: m.remedies(err),
		}}
	}
	return []Finding{{Check: "netlink", Level: OK, Found: "modules are named from the moment they are loaded"}}
}

// checkBlindTime says when code may come and go unseen. It comes after checkSymbols.
func checkBlindTime(m *machine) []Finding {
	f := Finding{Check: "blind time", Level: OK, Found: "none: loads and unloads are recorded as they happen"}
	var causes []string
	if m.records != nil {
		causes = append(causes, "between two readings of the list of BPF programs")
	}
	if m.events != nil {
		causes = append(causes, "between two readings of the list of modules")
	}
	if m.blind > 0 {
		causes = append(causes, fmt.Sprintf("%v in which records were lost while symbols were read", m.blind))
	}
	if len(causes) > 0 {
		f.Level, f.Found = Warn, strings.Join(causes, "; ")
		f.Lost = "names of frames of that time, where it is not certain what had their addresses"
	}
	return []Finding{f}
}

// checkModules looks at the list of modules and, for what they are, at one of them
// in sysfs.
func checkModules(m *machine) []Finding {
	list, err := os.ReadFile(filepath.Join(m.procfs, "modules"))
	if errors.Is(err, os.ErrNotExist) && readText(m.settings, "sys/kernel/osrelease") == "" {
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
	f.Level, f.Lost, f.Found = OK, "", counted(n, "module")+" loaded"
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

// readFiles reads the files of a directory, as only their owner may.
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

// counted returns a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
