// SPDX-License-Identifier: Apache-2.0

package seccomptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// childEnv makes the test binary print what it can do, and do nothing else.
const childEnv = "KERNELSYM_TEST_SECCOMP"

// found is the result of a process within a profile.
type found struct {
	Perf, BPF bool              // whether the system call reaches the kernel
	Sources   map[string]string // state of each source
}

var capsByName = map[string]capability.Cap{
	"SYSLOG": capability.CAP_SYSLOG, "PERFMON": capability.CAP_PERFMON,
	"BPF": capability.CAP_BPF, "SYS_ADMIN": capability.CAP_SYS_ADMIN,
}

// rows are the capabilities of the table's rows.
var rows = []struct {
	whose string
	caps  []string
}{
	{"none", nil},
	{"the component `no-sys-admin`", []string{"SYSLOG", "PERFMON"}},
	{"our manifest", []string{"SYSLOG", "PERFMON", "SYS_ADMIN"}},
	{"CAP_BPF alone", []string{"BPF"}},
	{"CAP_BPF in place of CAP_SYS_ADMIN", []string{"SYSLOG", "PERFMON", "BPF"}},
	{"CAP_BPF instead of CAP_PERFMON", []string{"SYSLOG", "BPF"}},
}

const (
	page = "../../../docs/dev/seccomp.md"
	tick = 10 * time.Millisecond
)

// TestDefaultProfiles verifies the table of docs/dev/seccomp.md. It runs the sources within
// the default profile of each runtime for a container with the capabilities of a row.
func TestDefaultProfiles(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.NeedRestrictedPerf(t)
	var table strings.Builder
	for _, row := range rows {
		without := runWithin(t, row.caps, func() error { return nil })
		require.True(t, without.Perf && without.BPF, "without a profile, system calls reach the kernel")
		cells := []string{row.whose, "none", states(without)}
		if len(row.caps) > 0 {
			cells[1] = strings.Join(row.caps, ", ")
		}
		for _, r := range runtimes {
			got := runWithin(t, row.caps, r.filter(t, row.caps))
			assert.Equal(t, without.Sources["kallsyms"], got.Sources["kallsyms"], r.name)
			cells = append(cells, calls(got)+"; "+states(got))
		}
		fmt.Fprintf(&table, "| %s |\n", strings.Join(cells, " | "))
	}
	t.Log("\n" + table.String())
	if kerneltest.InVM() {
		return // the page is not in the virtual machine
	}
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(content), table.String())
}

// filter returns a function that puts the calling thread within the profile for a container.
func (r runtime) filter(t *testing.T, caps []string) func() error {
	t.Helper()
	policy, err := r.policy(caps)
	require.NoError(t, err)
	return func() error { return seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Policy: policy}) }
}

// calls returns which system calls reach the kernel.
func calls(f found) string {
	switch {
	case f.Perf && f.BPF:
		return "both"
	case f.Perf:
		return "perf"
	case f.BPF:
		return "bpf"
	}
	return "none"
}

// states returns the states of the sources for the core kernel and for BPF.
func states(f found) string { return f.Sources["kallsyms"] + ", " + f.Sources["bpf"] }

// TestOpenSysctls verifies that a runtime's profile refuses perf events to a process without
// capabilities even if the sysctl allows them to every user.
func TestOpenSysctls(t *testing.T) {
	kerneltest.NeedVM(t)
	const paranoid = "/proc/sys/kernel/perf_event_paranoid"
	require.NoError(t, os.WriteFile(paranoid, []byte("-1"), 0))
	t.Cleanup(func() { assert.NoError(t, os.WriteFile(paranoid, []byte("2"), 0)) })
	without := runWithin(t, nil, func() error { return nil })
	assert.Equal(t, "degraded", without.Sources["bpf"])
	for _, r := range runtimes {
		got := runWithin(t, nil, r.filter(t, nil))
		assert.Equal(t, "down", got.Sources["bpf"], r.name)
	}
}

// runWithin runs the child process of the test with capabilities and a limit.
func runWithin(t *testing.T, caps []string, limit func() error) (f found) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	var list []capability.Cap
	for _, name := range caps {
		list = append(list, capsByName[name])
	}
	require.NoError(t, kerneltest.StartWithin(cmd, limit, list...))
	require.NoError(t, cmd.Wait(), errs.String())
	require.NoError(t, json.Unmarshal([]byte(out.String()), &f), out.String())
	return f
}

// TestMain acts as the child process if the environment asks for it.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := json.NewEncoder(os.Stdout).Encode(find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// find finds out what this process can do.
func find() (f found) {
	// The kernel checks the arguments before it checks rights.
	_, err := unix.PerfEventOpen(nil, 0, -1, -1, 0)
	f.Perf = errors.Is(err, unix.EFAULT)
	const noCommand = 1 << 16
	_, _, errno := unix.Syscall(unix.SYS_BPF, noCommand, 0, 0)
	f.BPF = errno == unix.EINVAL
	cache := symcache.Start(zap.NewNop(), nil, sources.List(sources.Everything("/proc", "/sys"))...)
	defer cache.Stop()
	f.Sources = make(map[string]string)
	for range otelcol.Patience / tick {
		for _, h := range cache.Health() {
			switch {
			case h.State == symcache.StateStarting:
			case isBudget(h.Err): // on a busy machine, which has nothing to do with a profile
				f.Sources[h.Source] = fmt.Sprint(symcache.StateUp)
			default:
				f.Sources[h.Source] = fmt.Sprint(h.State)
			}
		}
		if len(f.Sources) == len(cache.Health()) {
			break
		}
		time.Sleep(tick)
	}
	return f
}

// isBudget reports whether the only thing that a source misses is the time to read the end of /proc/kallsyms.
func isBudget(err error) bool {
	return err != nil && strings.Contains(err.Error(), "read budget") && !strings.Contains(err.Error(), "\n")
}
