package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// remedies returns what to change about an error of a source, on this machine: of
// what the error names, that which is not so already.
func (m *machine) remedies(err error) (lines []string) {
	add := func(more ...string) { lines = append(lines, more...) }
	if errors.Is(err, kallsyms.ErrRestricted) || errors.Is(err, bpf.ErrHidden) {
		if v, ok := m.sysctl("kernel.kptr_restrict"); ok && v >= 2 {
			add(sysctlRemedy("kernel.kptr_restrict", 1))
		}
		add(m.grant(syslog, "")...)
	}
	if errors.Is(err, perfring.ErrPermission) {
		grant := m.grant(perfmon, "perf_event_open")
		if m.rights.has(sysAdmin) {
			grant = m.grant(sysAdmin, "perf_event_open")
		}
		v, _ := m.sysctl("kernel.perf_event_paranoid")
		if v >= closedToPerfmon && !m.rights.has(sysAdmin) {
			add(sysctlRemedy("kernel.perf_event_paranoid", closedToPerfmon-1) + ", from which on CAP_PERFMON is enough; or grant CAP_SYS_ADMIN")
		}
		add(grant...)
		if v > 0 && !m.rights.has(perfmon) && !m.rights.has(sysAdmin) {
			add("or, for every user: " + sysctlRemedy("kernel.perf_event_paranoid", 0))
		}
	}
	if errors.Is(err, perfring.ErrMemory) {
		add(m.grant(ipcLock, "")...)
		add("or raise the memory that may be locked: LimitMEMLOCK= in a systemd unit, ulimit -l in a shell, or for every user: " +
			sysctlRemedy("kernel.perf_event_mlock_kb", 2048))
	}
	if errors.Is(err, perfring.ErrFiles) {
		add("raise the limit of open files: LimitNOFILE= in a systemd unit, ulimit -n in a shell")
	}
	if errors.Is(err, uevent.ErrUnreachable) {
		add("in Kubernetes: hostNetwork: true, or do not set hostUsers: false in the pod",
			"in Docker: run with --network=host or --userns=host; no rootless Docker or Podman")
	}
	if errors.Is(err, bpf.ErrPermission) {
		add(m.grant(sysAdmin, "bpf")...)
	}
	if errors.Is(err, perfring.ErrUnsupported) {
		add("a kernel since Linux 5.1, built with CONFIG_PERF_EVENTS and CONFIG_BPF_SYSCALL")
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		add(m.fileRemedy(path))
	}
	return lines
}

// grant says how to have a capability. Where it is effective, the system call that
// is refused all the same is named.
func (m *machine) grant(c right, call string) []string {
	switch {
	case m.rights.userNamespace:
		return []string{"run in the first user namespace: there, CAP_" + c.String() + " counts"}
	case m.rights.has(c) && call != "":
		return []string{"CAP_" + c.String() + " is effective: allow " + call + " in the seccomp profile (securityContext.seccompProfile) or security module"}
	case m.rights.has(c):
		return nil
	}
	return []string{
		"in a container: " + fmt.Sprintf("securityContext: {capabilities: {add: [%v]}}", c),
		fmt.Sprintf("in a systemd unit: CapabilityBoundingSet=CAP_%v (for a user other than root also AmbientCapabilities=CAP_%[1]v)", c),
	}
}

func sysctlRemedy(name string, value int) string { return fmt.Sprintf("sysctl -w %s=%d", name, value) }

// fileRemedy says what to do about a file that cannot be read.
func (m *machine) fileRemedy(err *fs.PathError) string {
	for root, kind := range map[string]string{m.procfs: "/proc", m.sysfs: "/sys"} {
		if strings.HasPrefix(err.Path, root+"/") && errors.Is(err, fs.ErrNotExist) {
			return mountRemedy(root, kind, strings.TrimPrefix(err.Path, root))
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return "run as root, to whom the file belongs; the capabilities can all be dropped but those named here"
	}
	return "look why " + err.Path + " cannot be read"
}

// mountRemedy says how to have a file of /proc or /sys that is missing below the
// directory which stands for those.
func mountRemedy(at, kind, file string) string {
	key := map[string]string{"/proc": "procfs", "/sys": "sysfs"}[kind]
	if at != kind {
		return fmt.Sprintf("set %s to %s, which tells of the machine's kernel in a container, too; "+
			"or, if that lacks it, mount the host's %s%s at %s%s, read-only", key, kind, kind, file, at, file)
	}
	return fmt.Sprintf("if the container runtime hides it: mount the host's %s%s at /host%s%s, read-only, and set %s to /host%s "+
		"(deploy/kubernetes/components/host-mounts)", kind, file, kind, file, key, kind)
}
