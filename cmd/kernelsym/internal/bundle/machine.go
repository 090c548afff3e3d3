// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// The files below /proc and /sys whose text goes into a bundle, as it is.
var (
	procFiles = []string{
		"sys/kernel/osrelease", "sys/kernel/version", "sys/kernel/kptr_restrict", "sys/kernel/perf_event_paranoid",
		"sys/kernel/perf_event_mlock_kb", "sys/kernel/perf_event_max_sample_rate", "sys/kernel/perf_cpu_time_max_percent",
		"sys/kernel/unprivileged_bpf_disabled", "sys/kernel/bpf_stats_enabled", "sys/net/core/bpf_jit_enable",
		"sys/net/core/bpf_jit_harden", "sys/net/core/bpf_jit_kallsyms", "self/uid_map", "self/timens_offsets",
	}
	sysFiles = []string{"kernel/security/lockdown", "devices/system/cpu/online", "devices/system/cpu/possible"}

	// The fields of /proc/self/status and the lines of /proc/self/limits.
	statusFields = []string{"Uid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters"}
	limitLines   = []string{"Max locked memory", "Max open files"}

	cgroupFiles = []string{"cpu.max", "cpu.stat", "memory.max", "memory.high", "memory.current", "pids.max"}
)

// A machine describes a machine: sections that map names to text. It leaves out what cannot be
// read.
type machine map[string]map[string]string

func readMachine(o Options) machine {
	m := machine{"versions": {
		"kernelsym": o.Version, "go": runtime.Version(), "architecture": runtime.GOARCH, "distribution": distribution(),
	}}
	m.addFiles("proc", o.Report.Procfs, procFiles)
	m.addFiles("sys", o.Report.Sysfs, sysFiles)
	m.addProcess()
	group, _ := os.ReadFile("/proc/self/cgroup")
	_, path, _ := strings.Cut(strings.TrimSpace(string(group)), "0::")
	m.addFiles("cgroup", filepath.Join("/sys/fs/cgroup", path), cgroupFiles)
	return m
}

func (m machine) add(section, name, text string) {
	if m[section] == nil {
		m[section] = make(map[string]string)
	}
	m[section][name] = strings.TrimSpace(text)
}

// addFiles adds the text of files.
func (m machine) addFiles(section, root string, names []string) {
	for _, name := range names {
		if text, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			m.add(section, name, string(text))
		}
	}
}

// addProcess adds the rights and limits of this process.
func (m machine) addProcess() {
	status, _ := os.ReadFile("/proc/self/status") // what cannot be read is left out
	for line := range strings.Lines(string(status)) {
		if name, value, ok := strings.Cut(line, ":"); ok && slices.Contains(statusFields, name) {
			m.add("process", name, value)
		}
	}
	limits, _ := os.ReadFile("/proc/self/limits")
	for line := range strings.Lines(string(limits)) {
		for _, name := range limitLines {
			if value, ok := strings.CutPrefix(line, name); ok {
				m.add("process", name, strings.Join(strings.Fields(value), " "))
			}
		}
	}
}

// distribution returns the name of this system's distribution or, in a container, of the image's
// distribution.
func distribution() string {
	text, _ := os.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return "not known"
}

// A packFile is a file in a directory of packs.
type packFile struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes,omitempty"`
	Mode  string `json:"mode,omitempty"`
	Error string `json:"error,omitempty"`
}

// listPacks lists the packs in a directory, and in its subdirectory of fetched packs.
func listPacks(dir string) (files []packFile) {
	for _, sub := range []string{".", "fetched"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil && sub == "." {
			return []packFile{{Name: dir, Error: err.Error()}}
		}
		for _, entry := range entries {
			if filepath.Ext(entry.Name()) != pack.Ext {
				continue
			}
			f := packFile{Name: filepath.Join(sub, entry.Name())}
			if info, err := entry.Info(); err != nil {
				f.Error = err.Error()
			} else {
				f.Bytes, f.Mode = info.Size(), info.Mode().String()
			}
			files = append(files, f)
		}
	}
	return files
}
