// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/procfs"
)

// The files below /proc and /sys whose text a report has as it is.
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

// An Environment is where doctor ran: sections that map names to text. It leaves out what cannot be read.
type Environment map[string]map[string]string

func readEnvironment(m *machine) Environment {
	e := Environment{"versions": {
		"kernelsym": m.version, "go": runtime.Version(), "architecture": runtime.GOARCH, "distribution": distribution(),
	}}
	e.addFiles("proc", m.state.settings, procFiles)
	e.addFiles("sys", m.sysfs, sysFiles)
	for line := range strings.Lines(readText(m.state.settings, "self/status")) {
		if name, value, _ := strings.Cut(line, ":"); slices.Contains(statusFields, name) {
			e.add("process", name, value)
		}
	}
	for _, name := range limitLines {
		e.add("process", name, strings.Join(procfs.Limit(m.state.settings, name), " "))
	}
	if _, path, ok := strings.Cut(readText(m.own, "self/cgroup"), "0::"); ok {
		e.addFiles("cgroup", filepath.Join("/sys/fs/cgroup", path), cgroupFiles)
	}
	return e
}

func (e Environment) addFiles(section, root string, names []string) {
	for _, name := range names {
		e.add(section, name, readText(root, name))
	}
}

// add adds a text, unless it is empty.
func (e Environment) add(section, name, text string) {
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	if e[section] == nil {
		e[section] = make(map[string]string)
	}
	e[section][name] = text
}

// distribution returns the name of this system's distribution or, in a container, of the image's
// distribution.
func distribution() string {
	for line := range strings.Lines(readText("/etc", "os-release")) {
		if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return "not known"
}
