package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

// TestRunningKernel checks this machine with all rights: what the tests of the
// sources need, doctor finds.
func TestRunningKernel(t *testing.T) {
	kerneltest.NeedBPF(t)
	r := Run(t.Context(), "/proc", "/sys", "")
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
}

// TestUnprivileged checks this machine without any right.
func TestUnprivileged(t *testing.T) {
	kerneltest.NeedRestrictedPerf(t)
	kerneltest.Unprivileged(t, func(t *testing.T) {
		r := Run(t.Context(), "/proc", "/sys", "")
		assert.Equal(t, 2, r.Code())
		assert.Equal(t, userCheck, r.Findings[0].Check, "the first thing to do is to become root")
		assert.Contains(t, finding(t, r, "capabilities").Found, "CAP_SYSLOG")
		for check, want := range map[string]error{
			"symbols: kallsyms": kallsyms.ErrRestricted, perfCheck: perfring.ErrPermission, programsCheck: bpf.ErrPermission,
		} {
			f := finding(t, r, check)
			assert.Contains(t, f.Found, want.Error())
			assert.NotEmpty(t, f.Remedy, check)
			assert.NotEmpty(t, f.Lost, check)
		}
		assert.Equal(t, OK, finding(t, r, eventsCheck).Level, "it needs no privilege")
	})
}

// limitedEnv tells this test that it runs with some capabilities only.
const limitedEnv = "KERNELSYM_TEST_DOCTOR_LIMITED"

// TestEachCapability checks this machine with one capability each, and compares
// with what it is said to be good for.
func TestEachCapability(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.NeedRestrictedPerf(t)
	kerneltest.LoadBPF(t, kerneltest.SmallProgram("kernelsym_doctor", 815, 0)) // of which the kernel can hide the address
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
	r := Run(t.Context(), "/proc", "/sys", "")
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

// TestMountedElsewhere checks this kernel by the files of other directories.
func TestMountedElsewhere(t *testing.T) {
	kerneltest.NeedAddresses(t)
	root := t.TempDir()
	require.NoError(t, os.Symlink("/proc", filepath.Join(root, "p")))
	require.NoError(t, os.Symlink("/sys", filepath.Join(root, "s")))
	r := Run(t.Context(), root+"/p", root+"/s", "")
	assert.Equal(t, OK, finding(t, r, "symbols: kallsyms").Level)
	assert.Equal(t, root+"/p", r.Procfs)
}
