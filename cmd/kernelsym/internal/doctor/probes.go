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
	err := m.kernel.recordSymbols()
	if err == nil {
		return []Finding{{Check: "perf events with KSYMBOL", Level: OK, Found: "BPF programs are named from the moment they are loaded"}}
	}
	return []Finding{{
		Check: "perf events with KSYMBOL", Level: Warn, Found: err.Error(),
		Lost:   "BPF programs that are gone within a second, and trampolines; programs are looked for once a second",
		Remedy: m.remedies(err),
	}}
}

func checkBPF(m *machine) []Finding {
	n, err := m.kernel.listPrograms()
	switch {
	case errors.Is(err, bpf.ErrUnsupported):
		return []Finding{{Check: "bpf(2)", Level: Note, Found: err.Error()}}
	case err != nil:
		return []Finding{{
			Check: "bpf(2)", Level: Warn, Found: err.Error(),
			Lost:   "source lines of all BPF programs; ids and certain lengths of those loaded before the collector starts",
			Remedy: m.remedies(err),
		}}
	}
	return []Finding{{Check: "bpf(2)", Level: OK, Found: counted(n, "program") + " listed"}}
}

func checkEvents(m *machine) []Finding {
	if err := m.kernel.receiveEvents(); err != nil {
		return []Finding{{
			Check: "netlink", Level: Warn, Found: err.Error(),
			Lost:   "time: modules are looked at once a second, instead of when they come and go",
			Remedy: m.remedies(err),
		}}
	}
	return []Finding{{Check: "netlink", Level: OK, Found: "modules are named from the moment they are loaded"}}
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
