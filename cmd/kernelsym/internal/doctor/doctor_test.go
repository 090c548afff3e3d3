// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// TestFindings changes one thing about a healthy machine, and verifies the finding about it and the
// exit status.
func TestFindings(t *testing.T) {
	for name, tt := range map[string]struct {
		files  map[string]string
		kernel fake
		want   Finding // the report contains its Found, Lost and each Remedy
		code   int
	}{
		"healthy":   {want: Finding{Check: "symbols: kallsyms", Level: OK, Found: "1 symbol of the core kernel, read in"}},
		"programs":  {want: Finding{Check: programsCheck, Level: OK, Found: "3 programs listed"}},
		"functions": {want: Finding{Check: "symbols: bpf", Level: OK, Found: "1 BPF function, read in"}},
		"modules":   {want: Finding{Check: "symbols: modules", Level: OK, Found: "1 symbol of modules, read in"}},
		"build id":  {want: Finding{Check: "build id", Level: OK, Found: "abcd"}},
		"clocks":    {want: Finding{Check: "clocks", Level: OK, Found: "up for 1h30m0s, since 2026-01-02T03:04:05Z"}},
		"lockdown":  {want: Finding{Check: "lockdown", Level: OK, Found: "integrity: it forbids nothing that kernelsym does"}},
		"no CAP_SYSLOG": {
			files: map[string]string{"proc/self/status": withCapabilities(perfmon, sysAdmin), "proc/kallsyms": hiddenList},
			want: Finding{Check: "symbols: kallsyms", Level: Fail, Found: kallsyms.ErrRestricted.Error(), Remedy: []string{
				"grant CAP_SYSLOG",
			}},
			code: 2,
		},
		"kptr_restrict, and CAP_SYSLOG": {
			files: map[string]string{"proc/sys/kernel/kptr_restrict": "2", "proc/kallsyms": hiddenList},
			want: Finding{Check: "symbols: kallsyms", Level: Fail, Found: kallsyms.ErrRestricted.Error(), Remedy: []string{
				"sysctl -w kernel.kptr_restrict=1",
				"or where that is not allowed: set locate: true, with a pack of this kernel (kernelsym pack --boot), to name the core kernel alone",
			}},
			code: 2,
		},
		"how to grant it": {
			files: map[string]string{"proc/self/status": withCapabilities(perfmon, sysAdmin), "proc/kallsyms": hiddenList},
			want: Finding{Check: "capabilities", Level: Note, Found: "not effective: CAP_SYSLOG", Remedy: []string{
				"securityContext: {capabilities: {add: [SYSLOG, PERFMON, SYS_ADMIN]}}",
				"CapabilityBoundingSet=CAP_SYSLOG CAP_PERFMON CAP_SYS_ADMIN (for a user other than root, also AmbientCapabilities= with the same)",
			}},
			code: 2,
		},
		"how to grant several": {
			files:  map[string]string{"proc/self/status": withCapabilities(syslog)},
			kernel: fake{record: errPerf, list: errPrograms},
			want: Finding{Check: "capabilities", Level: Note, Remedy: []string{
				"{add: [SYSLOG, PERFMON, SYS_ADMIN]}", "CapabilityBoundingSet=CAP_SYSLOG CAP_PERFMON CAP_SYS_ADMIN",
			}},
			code: 1,
		},
		"an ordinary user": {
			files: map[string]string{"proc/self/status": "Uid:\t1000\t1000\t1000\t1000\n" + withCapabilities()},
			want: Finding{Check: "user", Level: Note, Found: "run it as root: user 1000 has no capabilities", Remedy: []string{
				"sudo kernelsym doctor",
			}},
		},
		"kptr_restrict": {
			files: map[string]string{"proc/sys/kernel/kptr_restrict": "2"},
			want:  Finding{Check: "kptr_restrict", Level: Note, Found: "2: the kernel hides its addresses from every process"},
		},
		"addresses for some": {
			files: map[string]string{"proc/sys/kernel/kptr_restrict": "0"},
			want:  Finding{Check: "kptr_restrict", Level: OK, Found: "0: CAP_SYSLOG shows the kernel's addresses"},
		},
		"addresses for everybody": {
			files: map[string]string{"proc/sys/kernel/kptr_restrict": "0", "proc/sys/kernel/perf_event_paranoid": "1"},
			want:  Finding{Check: "kptr_restrict", Level: OK, Found: "0: the kernel shows its addresses to every process, since kernel.perf_event_paranoid is 1"},
		},
		"no part of BPF": {
			kernel: fake{record: errPerf},
			want:   Finding{Check: "symbols: bpf", Level: Note, Found: "1 BPF function, read in"}, // perf events have the loss
			code:   1,
		},
		"BPF code is not in kallsyms": {
			files:  map[string]string{"proc/sys/net/core/bpf_jit_harden": "1\n", "proc/sys/net/core/bpf_jit_kallsyms": "1\n"},
			kernel: fake{hidden: errBPFHidden},
			want: Finding{
				Check: "symbols: bpf", Level: Warn, Found: "incomplete: " + errBPFHidden.Error(), Lost: "part of what is known of BPF programs",
				Remedy: []string{"sysctl -w net.core.bpf_jit_harden=0, on the host", "or restart what attaches BPF programs"},
			},
			code: 1,
		},
		"BPF code is not in kallsyms, in a pod": {
			kernel: fake{hidden: errBPFHidden},
			want: Finding{Check: "symbols: bpf", Level: Warn, Remedy: []string{
				"sysctl -w net.core.bpf_jit_harden=0, on the host", "or restart what attaches BPF programs",
			}},
			code: 1,
		},
		"BPF code is not in kallsyms because of the other sysctl": {
			files:  map[string]string{"proc/sys/net/core/bpf_jit_harden": "0\n", "proc/sys/net/core/bpf_jit_kallsyms": "0\n"},
			kernel: fake{hidden: errBPFHidden},
			want: Finding{Check: "symbols: bpf", Level: Warn, Remedy: []string{
				"sysctl -w net.core.bpf_jit_kallsyms=1", "or restart what attaches BPF programs",
			}},
			code: 1,
		},
		"capabilities": {
			files: map[string]string{"proc/self/status": withCapabilities(syslog, perfmon, sysAdmin)},
			want:  Finding{Check: "capabilities", Level: OK, Found: "all that are needed here are effective"},
		},
		"perf refused": {
			files:  map[string]string{"proc/self/status": withCapabilities(syslog)},
			kernel: fake{record: errPerf},
			want: Finding{Check: "perf events", Level: Warn, Found: perfring.ErrPermission.Error(), Remedy: []string{
				"grant CAP_PERFMON", "or for all users: sysctl -w kernel.perf_event_paranoid=0",
			}},
			code: 1,
		},
		"perf refused to the capability by a sysctl": {
			files:  map[string]string{"proc/self/status": withCapabilities(syslog, perfmon), "proc/sys/kernel/perf_event_paranoid": "4"},
			kernel: fake{record: errPerf},
			want: Finding{Check: "perf events", Level: Warn, Remedy: []string{
				"sysctl -w kernel.perf_event_paranoid=2", "allow perf_event_open in the seccomp profile",
			}},
			code: 1,
		},
		"a sysctl of Debian's": {
			files: map[string]string{"proc/sys/kernel/perf_event_paranoid": "3"},
			want:  Finding{Check: "perf_event_paranoid", Level: OK, Found: "3: perf events need CAP_SYS_ADMIN on Debian and Ubuntu"},
		},
		"perf refused by a seccomp filter": {
			files:  map[string]string{"proc/self/status": "Seccomp:\t2\n" + withCapabilities(syslog, perfmon)},
			kernel: fake{record: errPerf},
			want: Finding{Check: "perf events", Level: Warn, Remedy: []string{
				"a seccomp filter is active: allow perf_event_open in the seccomp profile",
			}},
			code: 1,
		},
		"perf refused by a security module": {
			files:  map[string]string{"proc/self/status": "Seccomp:\t0\n" + withCapabilities(syslog, perfmon)},
			kernel: fake{record: errPerf},
			want:   Finding{Check: "perf events", Level: Warn, Remedy: []string{"allow perf_event_open in the security module (SELinux"}},
			code:   1,
		},
		"perf refused in spite of the capability": {
			kernel: fake{record: errPerf},
			want:   Finding{Check: "perf events", Level: Warn, Remedy: []string{"allow perf_event_open in the seccomp profile"}},
			code:   1,
		},
		"no memory": {
			files: map[string]string{
				"proc/self/status":                    withCapabilities(syslog),
				"proc/self/limits":                    "Max locked memory         8388608              8388608              bytes     \n",
				"proc/sys/kernel/perf_event_mlock_kb": "4096",
			},
			kernel: fake{record: perfring.ErrMemory},
			want: Finding{Check: "perf events", Level: Warn, Remedy: []string{
				"grant CAP_IPC_LOCK", "or raise RLIMIT_MEMLOCK (now 8388608 bytes): LimitMEMLOCK=",
				"or for all users (now 4096): sysctl -w kernel.perf_event_mlock_kb=8192",
			}},
			code: 1,
		},
		"little memory for waits": {
			files: map[string]string{
				"proc/self/status":                    withCapabilities(syslog, perfmon, sysAdmin),
				"proc/self/limits":                    "Max locked memory         8388608              8388608              bytes     \n",
				"proc/sys/kernel/perf_event_mlock_kb": "516",
			},
			kernel: fake{waits: fmt.Errorf("%w: each CPU's ring buffer has 128 KiB, not 256 KiB (limits): %w", kernelstack.ErrRings, perfring.ErrMemory)},
			want: Finding{
				Check: "off-CPU time", Level: Note, Found: "128 KiB, not 256 KiB (limits): not permitted to lock memory for the ring buffers",
				Remedy: []string{"raise RLIMIT_MEMLOCK (now 8388608 bytes): LimitMEMLOCK=", "or for all users (now 516): sysctl"},
			},
		},
		"no waits": {
			kernel: fake{waits: procfs.ErrPIDNamespace},
			want:   Finding{Check: "off-CPU time", Level: Note, Found: "off_cpu does not work here: this process must be in the initial PID namespace"},
		},
		"waits": {want: Finding{Check: "off-CPU time", Level: OK, Found: "no limit makes its ring buffers (256 KiB) smaller"}},
		"no files": {
			kernel: fake{record: perfring.ErrFiles},
			want:   Finding{Check: "perf events", Level: Warn, Remedy: []string{"LimitNOFILE="}},
			code:   1,
		},
		"old kernel": {
			kernel: fake{record: perfring.ErrUnsupported},
			want:   Finding{Check: "perf events", Level: Warn, Remedy: []string{"Linux 5.1"}},
			code:   1,
		},
		"bpf refused": {
			files:  map[string]string{"proc/self/status": withCapabilities(syslog, perfmon)},
			kernel: fake{list: errPrograms},
			want: Finding{Check: programsCheck, Level: Warn, Found: bpf.ErrPermission.Error(), Lost: "source lines of all", Remedy: []string{
				"grant CAP_SYS_ADMIN",
			}},
			code: 1,
		},
		"bpf refused in spite of the capability": {
			kernel: fake{list: errPrograms},
			want:   Finding{Check: programsCheck, Level: Warn, Remedy: []string{"allow bpf in the seccomp profile"}},
			code:   1,
		},
		"bpf hidden": {
			files:  map[string]string{"proc/self/status": withCapabilities(perfmon, sysAdmin)},
			kernel: fake{list: bpf.ErrHidden},
			want:   Finding{Check: programsCheck, Level: Warn, Remedy: []string{"grant CAP_SYSLOG"}},
			code:   1,
		},
		"no source of BPF": {
			kernel: fake{list: errPrograms},
			want:   Finding{Check: "symbols: bpf", Level: Note, Found: "; incomplete, see above"},
			code:   1,
		},
		"perf and bpf hidden by a seccomp filter": {
			files:  map[string]string{"proc/self/status": "Seccomp:\t2\n" + withCapabilities(syslog, perfmon, sysAdmin)},
			kernel: fake{record: perfring.ErrUnsupported, list: bpf.ErrUnsupported},
			want: Finding{Check: programsCheck, Level: Warn, Found: bpf.ErrUnsupported.Error(), Remedy: []string{
				"a seccomp filter is active, which can hide bpf: allow it",
			}},
			code: 1,
		},
		"kernel without BPF": {
			kernel: fake{list: bpf.ErrUnsupported},
			want:   Finding{Check: programsCheck, Level: Note, Found: bpf.ErrUnsupported.Error()},
		},
		"no netlink": {
			kernel: fake{receive: &fs.PathError{Op: "socket", Path: "netlink", Err: fs.ErrPermission}},
			want:   Finding{Check: eventsCheck, Level: Warn, Found: "netlink", Remedy: []string{"run as root"}},
			code:   1,
		},
		"no events in this network namespace": {
			kernel: fake{receive: uevent.ErrUnreachable},
			want: Finding{Check: eventsCheck, Level: Warn, Found: uevent.ErrUnreachable.Error(), Lost: "for less than a second", Remedy: []string{
				"hostNetwork: true", "--network=host",
			}},
			code: 1,
		},
		"no sysfs": {
			files: map[string]string{"sys/kernel/notes": "-"},
			want: Finding{Check: "build id", Level: Warn, Found: "no such file", Remedy: []string{
				"set sysfs to /sys,",
			}},
			code: 1,
		},
		"kernel frames without build id": {
			files: map[string]string{"sys/kernel/notes": "-"},
			want:  Finding{Check: "symbols: kallsyms", Level: Note, Found: "; incomplete, see above"},
			code:  1,
		},
		"no procfs": {
			files: map[string]string{"proc/sys/kernel/osrelease": "-", "proc/version": "-", "proc/kallsyms": "-"},
			want:  Finding{Check: "kernel", Level: Fail, Found: "is not the /proc", Remedy: []string{"set procfs to /proc,"}},
			code:  2,
		},
		"no kallsyms": {
			files: map[string]string{"proc/kallsyms": "-"},
			want:  Finding{Check: "symbols: kallsyms", Level: Fail, Found: "no such file", Remedy: []string{"mount the host's /proc/kallsyms at "}},
			code:  2,
		},
		"modules without procfs": {
			files: map[string]string{
				"proc/sys/kernel/osrelease": "-", "proc/version": "-", "proc/kallsyms": "-", "proc/modules": "-",
			},
			want: Finding{Check: "symbols: modules", Level: Note, Found: "not known, see above"},
			code: 2,
		},
		"no modules": {
			files: map[string]string{"proc/modules": "-"},
			want:  Finding{Check: "modules", Level: Note, Found: "no loadable modules"},
		},
		"sections missing": {
			files: map[string]string{"sys/module/xfs/sections/.text": "-"},
			want:  Finding{Check: "modules", Level: Warn, Found: "1 module loaded: open ", Remedy: []string{"mount the host's /sys/module/xfs/sections at "}},
			code:  1,
		},
		"gVisor": {
			files: map[string]string{"proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n"},
			want:  Finding{Check: "whose kernel", Level: Warn, Found: "gVisor's, by its version", Remedy: []string{"runtimeClassName"}},
			code:  1,
		},
		"gVisor since 2026": {
			files:  map[string]string{"proc/version": "Linux version 4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016\n", "proc/kallsyms": "-"},
			kernel: fake{record: perfring.ErrUnsupported, list: bpf.ErrUnsupported},
			want:   Finding{Check: "whose kernel", Level: Warn, Found: "gVisor's", Remedy: []string{"runtimeClassName"}},
			code:   2,
		},
		"no remedy in a sandbox": {
			files: map[string]string{
				"proc/version":              "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n",
				"proc/sys/kernel/osrelease": "-",
				"proc/kallsyms":             "-",
			},
			kernel: fake{record: perfring.ErrUnsupported},
			want:   Finding{Check: "perf events", Level: Warn},
			code:   2,
		},
		"release of an old gVisor": {
			files: map[string]string{
				"proc/version":              "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n",
				"proc/sys/kernel/osrelease": "-",
				"proc/kallsyms":             "-",
			},
			want: Finding{Check: "kernel", Level: OK, Found: "Linux 4.4.0"},
			code: 2,
		},
		"an old kernel of a distribution": {
			files: map[string]string{"proc/version": "Linux version 4.4.0-21-generic (buildd@lgw01-21) #37-Ubuntu SMP\n"},
			want:  Finding{Check: "whose kernel", Level: OK, Found: "no sign of a sandbox"},
		},
		"Kata": {
			files: map[string]string{"proc/cmdline": "systemd.unit=kata-containers.target agent.log=debug\n"},
			want:  Finding{Check: "whose kernel", Level: Warn, Found: "that of a virtual machine", Remedy: []string{"runtimeClassName"}},
			code:  1,
		},
		"container by its cgroup": {
			files: map[string]string{"proc/self/cgroup": "0::/kubepods.slice/x\n"},
			want:  Finding{Check: "whose kernel", Level: OK, Found: "in a container"},
		},
		"container by its root": {
			files: map[string]string{"proc/self/mountinfo": "1 2 0:3 / / rw,relatime - overlay overlay rw\n"},
			want:  Finding{Check: "whose kernel", Level: OK, Found: "in a container"},
		},
		"user namespace": {
			files:  map[string]string{"proc/self/uid_map": "0 1000 1\n", "proc/kallsyms": hiddenList},
			kernel: fake{record: errPerf, list: errPrograms},
			want:   Finding{Check: "user namespace", Level: Warn, Found: "not the initial one", Remedy: []string{"hostUsers: false", "--userns=host"}},
			code:   2,
		},
		"capability in a user namespace": {
			files: map[string]string{"proc/self/uid_map": "0 1000 1\n"},
			want:  Finding{Check: "capabilities", Level: Note, Found: "they do not count in this user namespace"},
			code:  1,
		},
		"time namespace": {
			files: map[string]string{"proc/self/timens_offsets": "monotonic 0 0\nboottime 86400 0\n"},
			want:  Finding{Check: "clocks", Level: Warn, Found: "differs from the kernel's by 86400 s", Remedy: []string{"time namespaces"}},
			code:  1,
		},
		"programs that may have no name": {
			kernel: fake{nameless: true},
			want: Finding{Check: "nameless programs", Level: Warn, Found: "1 BPF program may have been loaded without CAP_BPF", Remedy: []string{
				"kernel.unprivileged_bpf_disabled=2",
			}},
			code: 1,
		},
		"clock not set": {
			kernel: fake{started: time.Unix(5, 0)},
			want:   Finding{Check: "clocks", Level: Warn, Found: "1970", Remedy: []string{"time-sync.target"}},
			code:   1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t.Context(), machineWith(t, tt.files, tt.kernel))
			assert.Equal(t, tt.code, r.Code(), "%+v", r.Findings)
			f := finding(t, r, tt.want.Check)
			assert.Equal(t, tt.want.Level, f.Level, f.Found)
			assert.Contains(t, f.Found, withoutAdvice(tt.want.Found))
			assert.Contains(t, f.Lost, tt.want.Lost)
			require.Len(t, f.Remedy, len(tt.want.Remedy), f.Remedy)
			for i, want := range tt.want.Remedy {
				assert.Contains(t, f.Remedy[i], want)
			}
			assert.Equal(t, f.Level == Warn || f.Level == Fail, f.Lost != "", "a finding names a loss if, and only if, there is one")
			for _, f := range r.Findings {
				assert.NotContains(t, f.Found, "grant CAP_", "remedies know what this machine needs")
			}
		})
	}
}

// TestDescribe verifies the description of tables of BPF.
func TestDescribe(t *testing.T) {
	assert.Equal(t, "none", describe("modules", timeline.NewTable()))
	functions := timeline.NewBuilder(timeline.Limits{})
	load := func(origin timeline.Origin, addr uint64) {
		functions.Load(timeline.NewFunction(origin, "name", addr, 16, 0))
	}
	assert.Equal(t, "no BPF programs", describe("bpf", functions.Table()))
	load(timeline.OriginOOL, 0xffffffffc0000000)
	assert.Equal(t, "no BPF programs, 1 page of kprobes or ftrace", describe("bpf", functions.Table()))
	load(timeline.OriginOOL, 0xffffffffc0001000)
	load(timeline.OriginBPF, 0xffffffffc0002000)
	assert.Equal(t, "1 BPF function, 2 pages of kprobes or ftrace", describe("bpf", functions.Table()))
}

// TestNothingCanBeRead checks a machine with an empty directory. It verifies that no finding is OK
// if it would need a file.
func TestNothingCanBeRead(t *testing.T) {
	m := machineWith(t, nil, fake{})
	m.procfs = t.TempDir()
	r := run(t.Context(), m)
	assert.Equal(t, 2, r.Code())
	assert.Equal(t, Fail, finding(t, r, "kernel").Level)
	for _, check := range []string{"whose kernel", "user namespace", "capabilities", "modules"} {
		f := finding(t, r, check)
		assert.Equal(t, Note, f.Level, check)
		assert.Contains(t, f.Found, "not known", check)
	}
}

// TestFilesMountedAlone checks a machine that has only the files mounted that the sources read.
// Everything else comes from the process's own /proc.
func TestFilesMountedAlone(t *testing.T) {
	m := machineWith(t, nil, fake{})
	require.NoError(t, os.Rename(m.procfs, m.own))
	require.NoError(t, os.Mkdir(m.procfs, 0o755))
	for _, name := range []string{"kallsyms", "modules"} {
		require.NoError(t, os.Rename(filepath.Join(m.own, name), filepath.Join(m.procfs, name)))
	}
	want := run(t.Context(), machineWith(t, nil, fake{}))
	r := run(t.Context(), m)
	assert.Zero(t, r.Code())
	for i, f := range r.Findings {
		assert.Equal(t, want.Findings[i].Level, f.Level, f)
	}
}

// TestMountRemedy verifies the remedy for a file that a container runtime hides.
func TestMountRemedy(t *testing.T) {
	m := &machine{procfs: "/proc", sysfs: "/sys"}
	remedy := m.fileRemedy(&fs.PathError{Op: "open", Path: "/proc/kallsyms", Err: fs.ErrNotExist})
	assert.Contains(t, remedy, "mount the host's /proc/kallsyms at /host/proc/kallsyms, read-only, and set procfs to /host/proc ")
	assert.Contains(t, remedy, "components/host-mounts")
}

func finding(t *testing.T, r Report, check string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding %q in %+v", check, r.Findings)
	return Finding{}
}
