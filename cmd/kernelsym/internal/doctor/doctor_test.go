package doctor

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// TestFindings changes one thing about a healthy machine, and looks for the finding
// that says so and at the exit status.
func TestFindings(t *testing.T) {
	for name, tt := range map[string]struct {
		files  map[string]string
		kernel fake
		want   Finding // of which Found, Lost and each Remedy is contained in that of the report
		code   int
	}{
		"healthy":   {want: Finding{Check: "symbols: kallsyms", Level: OK, Found: "1 symbol of the core kernel, read in"}},
		"programs":  {want: Finding{Check: "bpf(2)", Level: OK, Found: "3 programs listed"}},
		"functions": {want: Finding{Check: "symbols: bpf", Level: OK, Found: "1 BPF function, read in"}},
		"modules":   {want: Finding{Check: "symbols: modules", Level: OK, Found: "1 symbol of modules, read in"}},
		"build id":  {want: Finding{Check: "build id", Level: OK, Found: "abcd"}},
		"clocks":    {want: Finding{Check: "clocks", Level: OK, Found: "up for 1h30m0s, since 2026-01-02T03:04:05Z"}},
		"lockdown":  {want: Finding{Check: "lockdown", Level: OK, Found: "integrity"}},
		"no CAP_SYSLOG": {
			files: map[string]string{"proc/self/status": withCapabilities(perfmon, sysAdmin), "proc/kallsyms": hiddenList},
			want: Finding{Check: "symbols: kallsyms", Level: Fail, Found: kallsyms.ErrRestricted.Error(), Remedy: []string{
				"securityContext: {capabilities: {add: [SYSLOG]}}", "CapabilityBoundingSet=CAP_SYSLOG (for a user other than root also AmbientCapabilities=CAP_SYSLOG)",
			}},
			code: 2,
		},
		"kptr_restrict, and CAP_SYSLOG": {
			files: map[string]string{"proc/sys/kernel/kptr_restrict": "2", "proc/kallsyms": hiddenList},
			want: Finding{Check: "symbols: kallsyms", Level: Fail, Found: kallsyms.ErrRestricted.Error(), Remedy: []string{
				"sysctl -w kernel.kptr_restrict=1",
			}},
			code: 2,
		},
		"kptr_restrict": {
			files: map[string]string{"proc/sys/kernel/kptr_restrict": "2"},
			want:  Finding{Check: "kernel.kptr_restrict", Level: Fail, Found: "2:", Remedy: []string{"sysctl -w kernel.kptr_restrict=1"}},
			code:  2,
		},
		"addresses for some": {
			files: map[string]string{"proc/sys/kernel/kptr_restrict": "0"},
			want:  Finding{Check: "kernel.kptr_restrict", Level: OK, Found: "0: the kernel shows its addresses to those who have CAP_SYSLOG"},
		},
		"addresses for everybody": {
			files: map[string]string{"proc/sys/kernel/kptr_restrict": "0", "proc/sys/kernel/perf_event_paranoid": "1"},
			want:  Finding{Check: "kernel.kptr_restrict", Level: OK, Found: "0: the kernel shows its addresses to everybody, as kernel.perf_event_paranoid is 1"},
		},
		"no part of BPF": {
			kernel: fake{record: errPerf},
			want:   Finding{Check: "symbols: bpf", Level: Warn, Lost: "part of what is known of BPF programs", Remedy: []string{"seccomp"}},
			code:   1,
		},
		"capability": {
			files: map[string]string{"proc/self/status": withCapabilities(syslog, perfmon, sysAdmin)},
			want:  Finding{Check: "CAP_BPF", Level: Note, Found: "nothing is lost"},
		},
		"perf refused": {
			files:  map[string]string{"proc/self/status": withCapabilities(syslog)},
			kernel: fake{record: errPerf},
			want: Finding{Check: "perf events with KSYMBOL", Level: Warn, Found: perfring.ErrPermission.Error(), Remedy: []string{
				"securityContext: {capabilities: {add: [PERFMON]}}", "CapabilityBoundingSet=CAP_PERFMON", "sysctl -w kernel.perf_event_paranoid=0",
			}},
			code: 1,
		},
		"perf refused to the capability by a sysctl": {
			files:  map[string]string{"proc/self/status": withCapabilities(syslog, perfmon), "proc/sys/kernel/perf_event_paranoid": "4"},
			kernel: fake{record: errPerf},
			want: Finding{Check: "perf events with KSYMBOL", Level: Warn, Remedy: []string{
				"sysctl -w kernel.perf_event_paranoid=2", "allow perf_event_open in the seccomp profile",
			}},
			code: 1,
		},
		"a sysctl of Debian's": {
			files: map[string]string{"proc/sys/kernel/perf_event_paranoid": "3"},
			want:  Finding{Check: "kernel.perf_event_paranoid", Level: OK, Found: "3: perf events take CAP_SYS_ADMIN"},
		},
		"perf refused in spite of the capability": {
			kernel: fake{record: errPerf},
			want:   Finding{Check: "perf events with KSYMBOL", Level: Warn, Remedy: []string{"allow perf_event_open in the seccomp profile"}},
			code:   1,
		},
		"no memory": {
			files:  map[string]string{"proc/self/status": withCapabilities(syslog)},
			kernel: fake{record: perfring.ErrMemory},
			want: Finding{Check: "perf events with KSYMBOL", Level: Warn, Remedy: []string{
				"add: [IPC_LOCK]", "CapabilityBoundingSet=CAP_IPC_LOCK", "kernel.perf_event_mlock_kb",
			}},
			code: 1,
		},
		"no files": {
			kernel: fake{record: perfring.ErrFiles},
			want:   Finding{Check: "perf events with KSYMBOL", Level: Warn, Remedy: []string{"LimitNOFILE="}},
			code:   1,
		},
		"old kernel": {
			kernel: fake{record: perfring.ErrUnsupported},
			want:   Finding{Check: "perf events with KSYMBOL", Level: Warn, Remedy: []string{"Linux 5.1"}},
			code:   1,
		},
		"bpf refused": {
			files:  map[string]string{"proc/self/status": withCapabilities(syslog, perfmon, capBPF)},
			kernel: fake{list: errPrograms},
			want: Finding{Check: "bpf(2)", Level: Warn, Found: bpf.ErrPermission.Error(), Lost: "source lines of all", Remedy: []string{
				"securityContext: {capabilities: {add: [SYS_ADMIN]}}", "CapabilityBoundingSet=CAP_SYS_ADMIN",
			}},
			code: 1,
		},
		"bpf refused in spite of the capability": {
			kernel: fake{list: errPrograms},
			want:   Finding{Check: "bpf(2)", Level: Warn, Remedy: []string{"allow bpf in the seccomp profile"}},
			code:   1,
		},
		"bpf hidden": {
			files:  map[string]string{"proc/self/status": withCapabilities(perfmon, sysAdmin)},
			kernel: fake{list: bpf.ErrHidden},
			want:   Finding{Check: "bpf(2)", Level: Warn, Remedy: []string{"add: [SYSLOG]", "CapabilityBoundingSet=CAP_SYSLOG"}},
			code:   1,
		},
		"no source of BPF": {
			kernel: fake{list: errPrograms},
			want:   Finding{Check: "symbols: bpf", Level: Warn, Found: bpf.ErrPermission.Error(), Remedy: []string{"seccomp"}},
			code:   1,
		},
		"kernel without BPF": {
			kernel: fake{list: bpf.ErrUnsupported},
			want:   Finding{Check: "bpf(2)", Level: Note, Found: bpf.ErrUnsupported.Error()},
			code:   1, // the fake source complains; the real one does not
		},
		"no netlink": {
			kernel: fake{receive: &fs.PathError{Op: "socket", Path: "netlink", Err: fs.ErrPermission}},
			want:   Finding{Check: "netlink", Level: Warn, Found: "netlink", Remedy: []string{"run as root"}},
			code:   1,
		},
		"no events in this network namespace": {
			kernel: fake{receive: uevent.ErrUnreachable},
			want: Finding{Check: "netlink", Level: Warn, Found: uevent.ErrUnreachable.Error(), Lost: "for less than a second", Remedy: []string{
				"hostNetwork: true", "--network=host",
			}},
			code: 1,
		},
		"no blind time": {want: Finding{Check: "blind time", Level: OK, Found: "none"}},
		"blind time": {
			kernel: fake{record: errPerf, receive: uevent.ErrUnreachable},
			want: Finding{Check: "blind time", Level: Warn, Found: "the list of BPF programs; between two readings of the list of modules",
				Lost: "names of frames of that time"},
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
			want: Finding{Check: "symbols: kallsyms", Level: Warn, Found: "; kernel frames get no build id",
				Remedy: []string{"mount the host's /sys/kernel/notes at "}},
			code: 1,
		},
		"no procfs": {
			files: map[string]string{"proc/sys/kernel/osrelease": "-", "proc/kallsyms": "-"},
			want:  Finding{Check: "kernel", Level: Fail, Found: "is not the /proc", Remedy: []string{"set procfs to /proc,"}},
			code:  2,
		},
		"no kallsyms": {
			files: map[string]string{"proc/kallsyms": "-"},
			want:  Finding{Check: "symbols: kallsyms", Level: Fail, Found: "no such file", Remedy: []string{"mount the host's /proc/kallsyms at "}},
			code:  2,
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
			want:  Finding{Check: "whose kernel", Level: Warn, Found: "looks like gVisor's", Remedy: []string{"runtimeClassName"}},
			code:  1,
		},
		"an old kernel of a distribution": {
			files: map[string]string{"proc/version": "Linux version 4.4.0-21-generic (buildd@lgw01-21) #37-Ubuntu SMP\n"},
			want:  Finding{Check: "whose kernel", Level: OK, Found: "no sign of a sandbox"},
		},
		"Kata": {
			files: map[string]string{"proc/cmdline": "systemd.unit=kata-containers.target agent.log=debug\n"},
			want:  Finding{Check: "whose kernel", Level: Warn, Found: "looks like that of a virtual machine", Remedy: []string{"runtimeClassName"}},
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
			want:   Finding{Check: "user namespace", Level: Warn, Found: "another", Remedy: []string{"hostUsers: false", "--userns=host"}},
			code:   2,
		},
		"capability in a user namespace": {
			files: map[string]string{"proc/self/uid_map": "0 1000 1\n"},
			want:  Finding{Check: "CAP_SYSLOG", Level: Note, Found: "only in this user namespace"},
			code:  1,
		},
		"time namespace": {
			files: map[string]string{"proc/self/timens_offsets": "monotonic 0 0\nboottime 86400 0\n"},
			want:  Finding{Check: "clocks", Level: Warn, Found: "86400 s off", Remedy: []string{"time namespaces"}},
			code:  1,
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
			assert.Contains(t, f.Found, tt.want.Found)
			assert.Contains(t, f.Lost, tt.want.Lost)
			require.Len(t, f.Remedy, len(tt.want.Remedy), f.Remedy)
			for i, want := range tt.want.Remedy {
				assert.Contains(t, f.Remedy[i], want)
			}
			assert.Equal(t, f.Level == Warn || f.Level == Fail, f.Lost != "", "what is lost is said where something is")
		})
	}
}

// TestDescribe counts what is in tables of BPF.
func TestDescribe(t *testing.T) {
	assert.Equal(t, "none", describe("modules", symtab.NewTable()))
	functions := symtab.NewHistory(symtab.Limits{})
	load := func(origin symtab.Origin, addr uint64) {
		functions.Load(symtab.NewFunction(origin, "name", addr, 16, 0))
	}
	assert.Equal(t, "no BPF programs", describe("bpf", functions.Table()))
	load(symtab.OriginOOL, 0xffffffffc0000000)
	assert.Equal(t, "no BPF programs, 1 page of kprobes or ftrace", describe("bpf", functions.Table()))
	load(symtab.OriginOOL, 0xffffffffc0001000)
	load(symtab.OriginBPF, 0xffffffffc0002000)
	assert.Equal(t, "1 BPF function, 2 pages of kprobes or ftrace", describe("bpf", functions.Table()))
}

// TestNothingCanBeRead checks a machine by an empty directory: then nothing is said to
// be well that would have to be read.
func TestNothingCanBeRead(t *testing.T) {
	m := machineWith(t, nil, fake{})
	m.procfs = t.TempDir()
	r := run(t.Context(), m)
	assert.Equal(t, 2, r.Code())
	assert.Equal(t, Fail, finding(t, r, "kernel").Level)
	for _, check := range []string{"whose kernel", "user namespace", "CAP_SYSLOG", "modules"} {
		f := finding(t, r, check)
		assert.Equal(t, Note, f.Level, check)
		assert.Contains(t, f.Found, "not known", check)
	}
}

// TestFilesMountedAlone checks a machine of which only those files are mounted that
// the sources read: all else is looked up in the process's own /proc.
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

// TestMountRemedy verifies what is said of a file that a container runtime hides.
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
