// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/locate"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// remedies returns what to change on this machine to fix an error of a source. It leaves out
// settings that are already right, and changes that do not help in a sandbox.
func (m *machine) remedies(err error) (lines []string) {
	if m.state.sandbox {
		return nil // the only remedy is to leave the sandbox
	}
	add := func(more ...string) { lines = append(lines, more...) }
	or := func(line string) {
		if len(lines) > 0 {
			line = "or " + line
		}
		add(line)
	}
	if errors.Is(err, kallsyms.ErrRestricted) || errors.Is(err, bpf.ErrHidden) {
		if v, ok := m.sysctl("kernel.kptr_restrict"); ok && v >= 2 {
			add(sysctlRemedy("kernel.kptr_restrict", 1))
		}
		add(m.grant(syslog, "")...)
	}
	if v, ok := m.sysctl("kernel.kptr_restrict"); ok && v >= 2 && errors.Is(err, kallsyms.ErrRestricted) && !m.locate {
		or("where that is not allowed: set locate: true, with a pack of this kernel (kernelsym pack --boot), to name the core kernel alone; " +
			"kernelsym doctor --locate --packs DIRECTORY tries it")
	}
	if errors.Is(err, perfring.ErrPermission) {
		grant := m.grant(perfmon, "perf_event_open")
		if m.state.rights.has(sysAdmin) {
			grant = m.grant(sysAdmin, "perf_event_open")
		}
		v, _ := m.sysctl("kernel.perf_event_paranoid")
		if v >= closedToPerfmon && !m.state.rights.has(sysAdmin) {
			add(sysctlRemedy("kernel.perf_event_paranoid", closedToPerfmon-1) + ", so that CAP_PERFMON is enough; or grant CAP_SYS_ADMIN")
		}
		add(grant...)
		if v > 0 && !m.state.rights.has(perfmon) && !m.state.rights.has(sysAdmin) {
			or("for all users: " + sysctlRemedy("kernel.perf_event_paranoid", 0))
		}
	}
	if errors.Is(err, locate.ErrSilent) || errors.Is(err, locate.ErrFew) {
		add(m.grant(sysAdmin, "")...)
	}
	if errors.Is(err, locate.ErrSilent) {
		or("use Linux 5.16 or later: on x86-64, /proc/PID/wchan says nothing before")
	}
	if errors.Is(err, locate.ErrContradiction) {
		add("make the pack again, from the image that this machine booted; a livepatch, or a program that traces these functions, has the same effect")
	}
	if errors.Is(err, perfring.ErrMemory) {
		if !errors.Is(err, kernelstack.ErrRings) { // smaller rings are no reason for another right
			add(m.grant(ipcLock, "")...)
		}
		or("raise RLIMIT_MEMLOCK (now " + m.lockedMemory() + ")" + ": LimitMEMLOCK= in a systemd unit, ulimit -l in a shell")
		kilobytes, _ := m.sysctl("kernel.perf_event_mlock_kb")
		or("for all users" + fmt.Sprintf(" (now %d)", kilobytes) + ": " + sysctlRemedy("kernel.perf_event_mlock_kb", max(2048, 2*kilobytes)))
	}
	if errors.Is(err, perfring.ErrFiles) {
		add("raise RLIMIT_NOFILE: LimitNOFILE= in a systemd unit, ulimit -n in a shell")
	}
	if errors.Is(err, uevent.ErrUnreachable) {
		add("in Kubernetes: hostNetwork: true, or do not set hostUsers: false in the pod",
			"in Docker: run with --network=host or --userns=host; do not use rootless Docker or Podman")
	}
	if errors.Is(err, bpf.ErrUnsupported) {
		add(m.hiddenBySeccomp("bpf")...)
	}
	if errors.Is(err, bpf.ErrPermission) {
		add(m.grant(sysAdmin, "bpf")...)
	}
	if errors.Is(err, kallsyms.ErrBPFHidden) {
		if v, ok := m.sysctl(jitKallsyms); ok && v != 1 {
			add(sysctlRemedy(jitKallsyms, 1))
		}
		if v, ok := m.sysctl(jitHarden); !ok || v != 0 { // it cannot be read in a pod's network namespace
			add(sysctlRemedy(jitHarden, 0) + ", on the host, which ends the hardening of JITed code")
		}
		or("restart what attaches BPF programs after the collector has started")
	}
	if errors.Is(err, perfring.ErrUnsupported) {
		add("use Linux 5.1 or later, built with CONFIG_PERF_EVENTS and CONFIG_BPF_SYSCALL")
		add(m.hiddenBySeccomp("perf_event_open")...)
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		add(m.fileRemedy(path))
	}
	return lines
}

// The sysctls that hide BPF code in kallsyms (bpf_jit_kallsyms_enabled in include/linux/filter.h).
const (
	jitHarden   = "net.core.bpf_jit_harden"
	jitKallsyms = "net.core.bpf_jit_kallsyms"
)

// grant returns the remedy of granting a capability. If the capability is already effective, the
// remedy names what else can refuse the system call. In a user namespace there is no remedy,
// because capabilities do not help.
func (m *machine) grant(c right, call string) []string {
	switch {
	case m.state.rights.userNamespace:
		return nil
	case !m.state.rights.has(c):
		if !slices.Contains(m.state.wanted, c) {
			m.state.wanted = append(m.state.wanted, c)
		}
		return []string{"grant CAP_" + c.String()}
	case call == "":
		return nil
	}
	switch m.state.rights.seccomp {
	case seccompOff:
		return []string{"CAP_" + c.String() + " is effective and no seccomp filter is active: allow " + call +
			" in the security module (SELinux, AppArmor), whose log says what it refused"}
	case seccompFilter:
		return []string{"CAP_" + c.String() + " is effective and a seccomp filter is active: allow " + call +
			" in the seccomp profile (securityContext.seccompProfile)"}
	}
	return []string{"CAP_" + c.String() + " is effective: allow " + call +
		" in the seccomp profile (securityContext.seccompProfile) or security module"}
}

// hiddenBySeccomp returns the remedy for a seccomp filter, which can make the kernel appear not to
// have a system call.
func (m *machine) hiddenBySeccomp(call string) []string {
	if m.state.rights.seccomp != seccompFilter {
		return nil
	}
	return []string{"a seccomp filter is active, which can hide " + call + ": allow it in the seccomp profile (securityContext.seccompProfile)"}
}

func sysctlRemedy(name string, value int) string { return fmt.Sprintf("sysctl -w %s=%d", name, value) }

// fileRemedy returns what to do about a file that cannot be read.
func (m *machine) fileRemedy(err *fs.PathError) string {
	for root, kind := range map[string]string{m.procfs: "/proc", m.sysfs: "/sys"} {
		if strings.HasPrefix(err.Path, root+"/") && errors.Is(err, fs.ErrNotExist) {
			return mountRemedy(root, kind, strings.TrimPrefix(err.Path, root))
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return "run as root, which owns the file; all capabilities but those named here can be dropped"
	}
	return "find out why " + err.Path + " cannot be read"
}

// mountRemedy returns how to provide a file of /proc or /sys that is missing below at.
func mountRemedy(at, kind, file string) string {
	key := map[string]string{"/proc": "procfs", "/sys": "sysfs"}[kind]
	if at != kind {
		return fmt.Sprintf("set %s to %s, which shows the machine's kernel in a container, too; "+
			"or, if the file is missing there, mount the host's %s%s at %s%s, read-only", key, kind, kind, file, at, file)
	}
	return fmt.Sprintf("if the container runtime hides the file: mount the host's %s%s at /host%s%s, read-only, and set %s to /host%s "+
		"(deploy/kubernetes/components/host-mounts)", kind, file, kind, file, key, kind)
}
