package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// What the checks that read files say is lost.
const (
	lostNames   = "all names of kernel code; profiles pass through as they came"
	lostFileIDs = "build ids and file IDs of kernel frames, and with them the check that a profile is of this kernel"
)

func checkKernel(m *machine) []Finding {
	release := readText(m.settings, "sys/kernel/osrelease")
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
		f.Remedy = []string{"a kernel that was linked with --build-id, as those of distributions are"}
		return []Finding{f}
	}
	return []Finding{{Check: "build id", Level: OK, Found: id}}
}

// checkWhoseKernel guesses whether this is the kernel of the machine or that of a
// sandbox around this process. There is no sure sign.
func checkWhoseKernel(m *machine) []Finding {
	f := Finding{
		Check: "whose kernel", Level: Warn,
		Lost:   "names of the node's kernel: this process sees another one",
		Remedy: []string{"run the collector on the node itself: without runtimeClassName in the pod"},
	}
	version, commandLine := readText(m.settings, "version"), readText(m.settings, "cmdline")
	mounts := readText(m.settings, "self/mountinfo")
	switch {
	case version == "":
		return []Finding{{Check: "whose kernel", Level: Note, Found: "not known: " + m.settings + "/version cannot be read"}}
	case strings.HasPrefix(version, "Linux version 4.4.0") && strings.Contains(version, "Jan 10 15:06:54 PST 2016"):
		// What the sentry answers to uname(2), since its first release.
		f.Found = "looks like gVisor's: its version is the one that gVisor shows"
	case strings.Contains(commandLine, "kata-containers") || strings.Contains(commandLine, "agent.log") ||
		strings.Contains(mounts, "kataShared"):
		f.Found = "looks like that of a virtual machine which Kata Containers made for this pod"
	case isContainer(m, mounts):
		return []Finding{{
			Check: "whose kernel", Level: OK,
			Found: "the machine's, as it looks; this process is in a container",
		}}
	default:
		return []Finding{{Check: "whose kernel", Level: OK, Found: "the machine's, as it looks; no sign of a sandbox or container"}}
	}
	return []Finding{f}
}

// isContainer looks for the usual signs of a container: where its control group is
// or, as that can be hidden, what its root file system is made of.
func isContainer(m *machine, mounts string) bool {
	groups := readText(m.settings, "1/cgroup") + readText(m.settings, "self/cgroup")
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

func checkUserNamespace(m *machine) []Finding {
	if !m.rights.knownNamespace {
		return []Finding{{Check: "user namespace", Level: Note, Found: "not known: " + m.settings + "/self/uid_map cannot be read"}}
	}
	if !m.rights.userNamespace {
		return []Finding{{Check: "user namespace", Level: OK, Found: "the first one"}}
	}
	return []Finding{{
		Check: "user namespace", Level: Warn,
		Found: "another than the first: the kernel does not respect this process's capabilities",
		Lost:  "whatever takes a capability",
		Remedy: []string{
			"in Kubernetes: do not set hostUsers: false in the pod",
			"in Docker: run with --userns=host; no rootless Docker or Podman",
		},
	}}
}

func checkCapabilities(m *machine) (findings []Finding) {
	for _, c := range []right{syslog, perfmon, capBPF, sysAdmin} {
		f := Finding{Check: "CAP_" + c.String(), Level: OK, Found: "effective"}
		switch {
		case !m.rights.known:
			f.Level, f.Found = Note, "not known"
		case m.rights.userNamespace && m.rights.effective>>c&1 == 1:
			f.Level, f.Found = Note, "effective, but only in this user namespace"
		case !m.rights.has(c):
			f.Level, f.Found = Note, "not effective: "+without[c]
		}
		findings = append(findings, f)
	}
	return findings
}

// without says what a capability is for. Whether its lack costs anything, the
// checks below find out.
var without = map[right]string{
	syslog:   "the kernel may hide where its code lies",
	perfmon:  "perf events may be refused, unless CAP_SYS_ADMIN is effective",
	capBPF:   "nothing is lost by that, listing programs takes CAP_SYS_ADMIN",
	sysAdmin: "the kernel does not list BPF programs",
}

func checkPointers(m *machine) []Finding {
	f := Finding{Check: "kernel.kptr_restrict", Level: OK}
	v, ok := m.sysctl("kernel.kptr_restrict")
	switch {
	case !ok:
		f.Level, f.Found = Note, "cannot be read"
	case v >= 2:
		f.Level, f.Lost = Fail, lostNames
		f.Found = fmt.Sprintf("%d: the kernel hides its addresses from everybody", v)
		f.Remedy = []string{sysctlRemedy("kernel.kptr_restrict", 1)}
	case v == 1:
		f.Found = "1: the kernel shows its addresses to those who have CAP_SYSLOG"
	default:
		f.Found = "0: the kernel shows its addresses to those who have CAP_SYSLOG"
		if paranoid, ok := m.sysctl("kernel.perf_event_paranoid"); ok && paranoid <= 1 {
			f.Found = fmt.Sprintf("0: the kernel shows its addresses to everybody, as kernel.perf_event_paranoid is %d", paranoid)
		}
	}
	return []Finding{f}
}

func checkLockdown(m *machine) []Finding {
	f := Finding{Check: "lockdown", Level: OK}
	// The one in force stands in brackets, as "[none] integrity confidentiality".
	_, rest, found := strings.Cut(readText(m.sysfs, "kernel/security/lockdown"), "[")
	mode, _, closed := strings.Cut(rest, "]")
	if !found || !closed {
		f.Level, f.Found = Note, "cannot be read: no lockdown in this kernel, or securityfs is not mounted"
		return []Finding{f}
	}
	f.Found = mode + ": kernelsym does nothing that it forbids"
	return []Finding{f}
}

// closedToPerfmon is the kernel.perf_event_paranoid from which on a patch of Debian's and
// Ubuntu's kernels asks for CAP_SYS_ADMIN, whatever else is granted. To other kernels it means
// what 2 does.
const closedToPerfmon = 3

func checkParanoia(m *machine) []Finding {
	f := Finding{Check: "kernel.perf_event_paranoid", Level: OK}
	v, ok := m.sysctl("kernel.perf_event_paranoid")
	switch {
	case !ok:
		f.Level, f.Found = Note, "cannot be read: no perf events in this kernel?"
	case v <= 0:
		f.Found = fmt.Sprintf("%d: everybody may use perf events on all CPUs", v)
	case v >= closedToPerfmon:
		f.Found = fmt.Sprintf("%d: perf events take CAP_SYS_ADMIN; kernels without a patch of Debian's or Ubuntu's also take CAP_PERFMON", v)
	default:
		f.Found = fmt.Sprintf("%d: perf events on all CPUs take CAP_PERFMON or CAP_SYS_ADMIN", v)
	}
	return []Finding{f}
}

func checkClocks(m *machine) []Finding {
	f := Finding{Check: "clocks", Level: Warn}
	for line := range strings.Lines(readText(m.settings, "self/timens_offsets")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "boottime" && (fields[1] != "0" || fields[2] != "0") {
			f.Found = "the boot clock is that of a time namespace, " + fields[1] + " s off the kernel's"
			f.Lost = "what was loaded when: BPF programs get names as if they had been there at another time"
			f.Remedy = []string{"run the collector outside of time namespaces"}
			return []Finding{f}
		}
	}
	boot, offset := m.kernel.clocks()
	started := time.Unix(0, offset).UTC()
	if started.Year() < 2000 {
		f.Found = "the wall clock is not set: by it, the machine started in the year " + started.Format("2006")
		f.Lost = "the time of samples, if it is set later: they get the names of when they come"
		f.Remedy = []string{"have the clock set before the collector starts: systemd's time-sync.target"}
		return []Finding{f}
	}
	f.Level = OK
	f.Found = fmt.Sprintf("up for %v, since %s by the wall clock", time.Duration(boot).Round(time.Second), started.Format(time.RFC3339))
	return []Finding{f}
}
