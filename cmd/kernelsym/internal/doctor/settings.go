// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// Losses that more than one check reports.
const (
	lostNames   = "names of the core kernel and of modules"
	lostFileIDs = "build ids and file IDs of kernel frames, and the check that a profile comes from this kernel"
)

func checkKernel(m *machine) []Finding {
	release := readText(m.state.settings, "sys/kernel/osrelease")
	if release == "" { // as in old versions of gVisor
		fields := strings.Fields(readText(m.state.settings, "version"))
		if len(fields) > 2 && fields[1] == "version" {
			release = fields[2]
		}
	}
	if release == "" {
		return []Finding{{
			Check: "kernel", Level: Fail, Found: m.procfs + " is not the /proc of a Linux kernel", Lost: lostNames,
			Remedy: []string{mountRemedy(m.procfs, "/proc", "/kallsyms")},
		}}
	}
	return []Finding{{Check: "kernel", Level: OK, Found: "Linux " + release}}
}

func checkBuildID(m *machine) []Finding {
	f := Finding{Check: "build id", Level: Warn, Lost: lostFileIDs}
	name := filepath.Join(m.sysfs, "kernel", "notes")
	notes, err := os.Open(name)
	if err != nil {
		f.Found = err.Error()
		f.Remedy = []string{mountRemedy(m.sysfs, "/sys", "/kernel/notes")}
		return []Finding{f}
	}
	defer notes.Close()
	id, err := buildid.Parse(notes)
	if err != nil {
		f.Found = fmt.Sprintf("%s: %v", name, err)
		f.Remedy = []string{"use a kernel that was linked with --build-id, as distributions do"}
		return []Finding{f}
	}
	m.state.buildID = id
	return []Finding{{Check: "build id", Level: OK, Found: id}}
}

const whoseCheck = "whose kernel"

// checkWhoseKernel guesses whether this is the machine's kernel or the kernel of a sandbox around
// this process. There is no certain sign.
func checkWhoseKernel(m *machine) []Finding {
	f := Finding{
		Check: whoseCheck, Level: Warn,
		Lost:   "all names of the machine's kernel: this process sees another kernel",
		Remedy: []string{"run the collector outside of the sandbox: remove runtimeClassName from the pod"},
	}
	version, commandLine := readText(m.state.settings, "version"), readText(m.state.settings, "cmdline")
	mounts := readText(m.state.settings, "self/mountinfo")
	switch {
	case version == "":
		return []Finding{{Check: whoseCheck, Level: Note, Found: "not known: " + m.state.settings + "/version cannot be read"}}
	case strings.Contains(version, "gvisor") || strings.Contains(version, "#1 SMP Sun Jan 10 15:06:54 PST 2016"):
		// The release is 4.4.0, since 2026 4.19.0-gvisor. The date has been the same since the
		// first release.
		f.Found = "gVisor's, by its version: a sandbox without kallsyms, perf events and BPF programs"
	case strings.Contains(commandLine, "kata-containers") || strings.Contains(commandLine, "agent.log") ||
		strings.Contains(mounts, "kataShared"):
		f.Found = "that of a virtual machine of Kata Containers, by its command line or mounts"
	case isContainer(m, mounts):
		return []Finding{{
			Check: whoseCheck, Level: OK,
			Found: "the machine's; this process is in a container",
		}}
	default:
		return []Finding{{Check: whoseCheck, Level: OK, Found: "the machine's; no sign of a sandbox or container"}}
	}
	m.state.sandbox = true
	return []Finding{f}
}

// isContainer looks for the usual signs of a container: its control group or, since that can be
// hidden, its root file system.
func isContainer(m *machine, mounts string) bool {
	groups := readText(m.state.settings, "1/cgroup") + readText(m.state.settings, "self/cgroup")
	for _, sign := range []string{"docker", "kubepods", "containerd", "libpod", "crio"} {
		if strings.Contains(groups, sign) {
			return true
		}
	}
	for line := range strings.Lines(mounts) {
		// "ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS... - TYPE SOURCE OPTIONS" (proc_pid_mountinfo(5))
		fields := strings.Fields(line)
		if len(fields) > 4 && fields[4] == "/" && strings.Contains(line, " - overlay ") {
			return true
		}
	}
	return false
}

const namespaceCheck = "user namespace"

func checkUserNamespace(m *machine) []Finding {
	if !m.state.rights.knownNamespace {
		return []Finding{{Check: namespaceCheck, Level: Note, Found: "not known: " + m.state.settings + "/self/uid_map cannot be read"}}
	}
	if !m.state.rights.userNamespace {
		return []Finding{{Check: namespaceCheck, Level: OK, Found: "the initial one"}}
	}
	return []Finding{{
		Check: namespaceCheck, Level: Warn,
		Found: "not the initial one: the kernel ignores this process's capabilities",
		Lost:  "everything that needs a capability",
		Remedy: []string{
			"in Kubernetes: do not set hostUsers: false in the pod",
			"in Docker: run with --userns=host; do not use rootless Docker or Podman",
		},
	}}
}

const pointersCheck = "kptr_restrict"

func checkPointers(m *machine) []Finding {
	f := Finding{Check: pointersCheck, Level: OK}
	v, ok := m.sysctl("kernel.kptr_restrict")
	paranoid, isKnown := m.sysctl("kernel.perf_event_paranoid")
	switch {
	case !ok:
		f.Level, f.Found = Note, "cannot be read"
	case v >= 2:
		// Reading kallsyms shows what this costs.
		f.Level, f.Found = Note, fmt.Sprintf("%d: the kernel hides its addresses from every process", v)
	case v <= 0 && isKnown && paranoid <= 1:
		f.Found = fmt.Sprintf("0: the kernel shows its addresses to every process, since kernel.perf_event_paranoid is %d", paranoid)
	case m.state.rights.known && !m.state.rights.has(syslog):
		f.Level, f.Found = Note, fmt.Sprintf("%d: the kernel hides its addresses from this process, which lacks CAP_SYSLOG", v)
	default:
		f.Found = fmt.Sprintf("%d: CAP_SYSLOG shows the kernel's addresses", v)
	}
	return []Finding{f}
}

func checkLockdown(m *machine) []Finding {
	f := Finding{Check: "lockdown", Level: OK}
	// The mode in force is in brackets, as in "[none] integrity confidentiality".
	_, rest, found := strings.Cut(readText(m.sysfs, "kernel/security/lockdown"), "[")
	mode, _, closed := strings.Cut(rest, "]")
	if !found || !closed {
		return nil // nothing depends on it
	}
	f.Found = mode + ": it forbids nothing that kernelsym does"
	return []Finding{f}
}

// closedToPerfmon is the value of kernel.perf_event_paranoid from which on the patched kernels of
// Debian and Ubuntu require CAP_SYS_ADMIN. In other kernels it means the same as 2.
const closedToPerfmon = 3

func checkParanoia(m *machine) []Finding {
	f := Finding{Check: "perf_event_paranoid", Level: OK}
	v, ok := m.sysctl("kernel.perf_event_paranoid")
	switch {
	case !ok:
		f.Level, f.Found = Note, "cannot be read: this kernel may have no perf events"
	case v <= 0:
		f.Found = fmt.Sprintf("%d: every process may use perf events on all CPUs", v)
	case v >= closedToPerfmon:
		f.Found = fmt.Sprintf("%d: perf events need CAP_SYS_ADMIN on Debian and Ubuntu, CAP_PERFMON on others", v)
	default:
		f.Found = fmt.Sprintf("%d: perf events on all CPUs need CAP_PERFMON or CAP_SYS_ADMIN", v)
	}
	return []Finding{f}
}

func checkClocks(m *machine) []Finding {
	f := Finding{Check: "clocks", Level: Warn}
	for line := range strings.Lines(readText(m.state.settings, "self/timens_offsets")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "boottime" && (fields[1] != "0" || fields[2] != "0") {
			f.Found = "the boot clock of this time namespace differs from the kernel's by " + fields[1] + " s"
			f.Lost = "the records of perf events: BPF programs are polled, and the kernelstack receiver samples nothing"
			f.Remedy = []string{"run the collector outside of time namespaces"}
			return []Finding{f}
		}
	}
	boot, offset := m.kernel.clocks()
	started := time.Unix(0, offset).UTC()
	if started.Year() < 2000 {
		f.Found = "the wall clock is not set: it says that the machine started in " + started.Format("2006")
		f.Lost = "some names of modules and BPF programs around the moment when the clock is set: samples of that time may have either of two times"
		f.Remedy = []string{"start the collector after the clock is set: After=time-sync.target in a systemd unit"}
		return []Finding{f}
	}
	f.Level = OK
	f.Found = fmt.Sprintf("up for %v, since %s by the wall clock", time.Duration(boot).Round(time.Second), started.Format(time.RFC3339))
	return []Finding{f}
}
