// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// runUndisturbed checks this machine until it does not stall while symbols are read, because
// otherwise some can be missing, which doctor reports.
func runUndisturbed(t *testing.T) Report {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		r := Run(t.Context(), Options{Procfs: "/proc", Sysfs: "/sys"})
		i := slices.IndexFunc(r.Findings, func(f Finding) bool {
			return f.Check == "blind time" || strings.Contains(f.Found, "read budget")
		})
		if i < 0 || time.Now().After(end) {
			return r
		}
		t.Logf("checking again: %s: %s", r.Findings[i].Check, r.Findings[i].Found)
	}
}

// TestRunningKernel checks this machine with all rights. Everything that the tests of the sources
// need must be OK.
func TestRunningKernel(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.LoadBPF(t, kerneltest.SmallProgram("kernelsym_doctor", 814, 0))
	r := runUndisturbed(t)
	for _, check := range []string{
		"kernel", "capabilities", perfCheck, eventsCheck, "clocks", "symbols: kallsyms", "symbols: modules", "symbols: bpf",
	} {
		f := finding(t, r, check)
		assert.Equal(t, OK, f.Level, f)
	}
	if _, err := os.Stat("/proc/modules"); err == nil {
		assert.Equal(t, OK, finding(t, r, "modules").Level)
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	require.NoError(t, err)
	assert.Equal(t, "Linux "+strings.TrimSpace(string(release)), finding(t, r, "kernel").Found)
	assert.NotEqual(t, 2, r.Code())

	d := r.Details
	require.Len(t, d.Sources, 3)
	assert.Positive(t, d.Sources[0].Symbols["kernel"])
	assert.Positive(t, d.Sources[0].Milliseconds)
	assert.Equal(t, Build{Name: "vmlinux", BuildID: finding(t, r, "build id").Found}, d.Builds[0])
	assert.Positive(t, d.Programs["socket_filter"], d.Programs)
}

// TestSeccomp checks this machine with a filter that refuses perf events even to root.
func TestSeccomp(t *testing.T) {
	kerneltest.Limited(t, kerneltest.Limits{Need: kerneltest.NeedBPF, Refuse: []uint32{unix.SYS_PERF_EVENT_OPEN}}, func(t *testing.T) {
		f := finding(t, Run(t.Context(), Options{Procfs: "/proc", Sysfs: "/sys"}), perfCheck)
		assert.Contains(t, f.Found, withoutAdvice(perfring.ErrPermission.Error()))
		require.Len(t, f.Remedy, 1)
		assert.Contains(t, f.Remedy[0], "a seccomp filter is active: allow perf_event_open in the seccomp profile")
	})
}

// namespaceEnv is set if TestUserNamespace runs in a user namespace.
const namespaceEnv = "KERNELSYM_TEST_DOCTOR_NAMESPACE"

// TestUserNamespace checks this machine as the root of a user namespace, as in rootless containers.
func TestUserNamespace(t *testing.T) {
	if os.Getenv(namespaceEnv) != "" {
		r := Run(t.Context(), Options{Procfs: "/proc", Sysfs: "/sys"})
		assert.Equal(t, namespaceCheck, r.Findings[0].Check, "the cause comes first")
		for _, f := range r.Findings {
			assert.NotContains(t, f.Remedy, "grant CAP_SYSLOG", "which would not help")
		}
		return
	}
	kerneltest.NeedBPF(t)
	kerneltest.NeedRestrictedPerf(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestUserNamespace$", "-test.v")
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("the kernel refuses user namespaces (%v): that doctor finds them is not tested", err)
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS", "it was run")
}

// TestUnprivileged checks this machine without any right.
func TestUnprivileged(t *testing.T) {
	kerneltest.NeedRestrictedPerf(t)
	kerneltest.Unprivileged(t, func(t *testing.T) {
		r := Run(t.Context(), Options{Procfs: "/proc", Sysfs: "/sys"})
		assert.Equal(t, 2, r.Code())
		assert.Equal(t, userCheck, r.Findings[0].Check, "the first thing to do is to become root")
		assert.Contains(t, finding(t, r, "capabilities").Found, "CAP_SYSLOG")
		for check, want := range map[string]error{
			"symbols: kallsyms": kallsyms.ErrRestricted, perfCheck: perfring.ErrPermission, programsCheck: bpf.ErrPermission,
		} {
			f := finding(t, r, check)
			assert.Contains(t, f.Found, withoutAdvice(want.Error()))
			assert.NotEmpty(t, f.Remedy, check)
			assert.NotEmpty(t, f.Lost, check)
		}
		assert.Equal(t, OK, finding(t, r, eventsCheck).Level, "it needs no privilege")
	})
}

// limitedEnv is set if this test runs with only some capabilities.
const limitedEnv = "KERNELSYM_TEST_DOCTOR_LIMITED"

// TestEachCapability checks this machine with one capability at a time, and verifies that the
// capability has the effects expected of it.
func TestEachCapability(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.NeedRestrictedPerf(t)
	kerneltest.LoadBPF(t, kerneltest.SmallProgram("kernelsym_doctor", 815, 0)) // the kernel can hide its address
	for _, tt := range []struct {
		only capability.Cap
		ok   []string
		code string
	}{
		{capability.CAP_SYSLOG, []string{"symbols: kallsyms"}, "1"},
		{capability.CAP_PERFMON, []string{perfCheck}, "2"},
		{capability.CAP_BPF, []string{"nothing"}, "2"},
		{capability.CAP_SYS_ADMIN, []string{perfCheck}, "2"},
	} {
		t.Run(tt.only.String(), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestLimited$", "-test.v")
			cmd.Env = append(os.Environ(), limitedEnv+"="+strings.Join(append([]string{tt.code}, tt.ok...), ","))
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			require.NoError(t, kerneltest.StartWith(cmd, tt.only))
			require.NoError(t, cmd.Wait(), out.String())
			require.Contains(t, out.String(), "--- PASS", "it was run")
		})
	}
}

// TestLimited is the other half of TestEachCapability.
func TestLimited(t *testing.T) {
	code, ok, limited := strings.Cut(os.Getenv(limitedEnv), ",")
	if !limited {
		t.Skip("run by TestEachCapability")
	}
	r := Run(t.Context(), Options{Procfs: "/proc", Sysfs: "/sys"})
	assert.Equal(t, code, string(rune('0'+r.Code())))
	var works []string
	for _, check := range []string{"symbols: kallsyms", perfCheck, programsCheck} {
		if finding(t, r, check).Level == OK {
			works = append(works, check)
		}
	}
	if len(works) == 0 {
		works = []string{"nothing"}
	}
	assert.Equal(t, strings.Split(ok, ","), works)
}

// TestMountedElsewhere checks this kernel through the files in other directories.
func TestMountedElsewhere(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedAddresses(t)
	root := t.TempDir()
	require.NoError(t, os.Symlink("/proc", filepath.Join(root, "p")))
	require.NoError(t, os.Symlink("/sys", filepath.Join(root, "s")))
	r := Run(t.Context(), Options{Procfs: root + "/p", Sysfs: root + "/s"})
	assert.Equal(t, OK, finding(t, r, "symbols: kallsyms").Level)
	assert.Equal(t, root+"/p", r.Procfs)
}
