// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// sleepEnv makes the test binary a process that sleeps in a known place.
const sleepEnv = "KERNELSYM_TEST_SLEEP"

// sleeps are system calls that do not return.
var sleeps = map[string]func() error{
	"pause":     unix.Pause,
	"nanosleep": func() error { return kerneltest.Sleep(1e6 * time.Second) },
	"poll": func() error {
		_, err := unix.Poll(nil, -1)
		return err
	},
	"pipe read": func() error {
		var fds [2]int
		if err := unix.Pipe(fds[:]); err != nil {
			return err
		}
		_, err := unix.Read(fds[0], make([]byte, 1))
		return err
	},
	"accept": func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{}), unix.Listen(fd, 1)); err != nil {
			return err
		}
		_, _, err = unix.Accept(fd)
		return err
	},
	"lock": func() error {
		f, err := os.CreateTemp("", "lock")
		if err != nil {
			return err
		}
		other, err := os.Open(f.Name())
		if err != nil {
			return err
		}
		return errors.Join(os.Remove(f.Name()), unix.Flock(int(f.Fd()), unix.LOCK_EX), unix.Flock(int(other.Fd()), unix.LOCK_EX))
	},
}

func init() {
	if name := os.Getenv(sleepEnv); name != "" {
		fmt.Println("asleep")
		fmt.Fprintln(os.Stderr, name+":", kerneltest.Uninterrupted(sleeps[name]))
		os.Exit(1)
	}
}

// runningKernel returns a snapshot of the running kernel.
func runningKernel(t *testing.T) *timeline.Snapshot {
	t.Helper()
	kerneltest.NeedAddresses(t)
	snapshot, err := symcache.Load(t.Context(), kallsyms.NewSource("/proc", "/sys", nil))
	require.NoError(t, err)
	return snapshot
}

// TestContract_3_3_NamesOfTheKernel verifies names against the names that the kernel itself prints
// in /proc/PID/stack, for all threads and for processes that sleep in known places.
func TestContract_3_3_NamesOfTheKernel(t *testing.T) {
	snapshot := runningKernel(t)
	if !kerneltest.Has(t, capability.CAP_SYS_ADMIN) {
		t.Skip("no CAP_SYS_ADMIN (not root?): /proc/PID/stack is not compared")
	}
	starts := make(map[string][]uint64)
	list := kerneltest.ReadSymbols(t)
	for addr, names := range list.Names {
		for _, name := range names {
			starts[name] = append(starts[name], addr)
		}
	}
	printed := make(map[string]bool)
	for name := range sleeps {
		for _, line := range sleeper(t, name) {
			printed[line] = true
		}
	}
	tasks, err := filepath.Glob("/proc/[0-9]*/task/*/stack")
	require.NoError(t, err)
	for _, task := range tasks {
		for _, line := range stackLines(task) {
			printed[line] = true
		}
	}

	places, aliased, agreed := 0, 0, 0
	for line := range printed {
		// [<0>] name+0xOFFSET/0xSIZE of a return address, as %pB prints it.
		name, offsets, ok := strings.Cut(strings.TrimPrefix(line, "[<0>] "), "+")
		if !ok || len(starts[name]) == 0 || strings.Contains(line, " [") {
			continue // in no symbol, or in a module or a BPF program
		}
		places++
		text, _, _ := strings.Cut(offsets, "/")
		offset, err := strconv.ParseUint(text, 0, 64)
		require.NoError(t, err, line)
		var got []string
		for _, start := range starts[name] {
			if len(list.Names[start]) > 1 {
				aliased++
			}
			hit, _ := snapshot.At(start+offset-1, timeline.Always)
			symbol := hit.Symbol
			if !symbol.Exists() || symbol.Start != start {
				continue
			}
			got = append(got, hit.Name().System)
			if hit.Name().Folded {
				agreed++
			}
		}
		assert.Contains(t, got, name, line)
	}
	t.Logf("%d places in %d stacks agree, %d of them with aliases", places, len(tasks), agreed)
	assert.Positive(t, places)
	if aliased == 0 {
		t.Log("no place with aliases: the choice among them is not compared")
	} else {
		assert.Positive(t, agreed)
	}
}

// sleeper starts a process that sleeps in a known place, and returns its stack.
func sleeper(t *testing.T, name string) (stack []string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), sleepEnv+"="+name)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, name)
	require.Equal(t, "asleep\n", line)
	// Its first thread sleeps.
	task := fmt.Sprintf("/proc/%d/task/%[1]d/", cmd.Process.Pid)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(task + "stat")
		require.NoError(t, err)
		_, state, _ := bytes.Cut(stat, []byte(") "))
		stack = stackLines(task + "stack")
		return state[0] == 'S' && len(stack) > 0
	}, otelcol.Patience, 10*time.Millisecond, name)
	return stack
}

// stackLines returns the lines of a file, or none if the thread has ended.
func stackLines(file string) []string {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return slices.Collect(strings.Lines(string(content)))
}

// perfFrame is a frame as perf script prints it.
type perfFrame struct {
	addr   uint64
	symbol string
	caller bool
}

// TestNamesOfPerf samples the running kernel with perf and verifies names against the names of perf
// script. They differ only where the contract says so: perf chooses another alias, names a call
// that does not return after the function that follows it, and names padding after the function
// that precedes it.
func TestNamesOfPerf(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed: its names are not compared")
	}
	kerneltest.NeedPerf(t)
	snapshot := runningKernel(t)
	list := kerneltest.ReadSymbols(t)
	differences := make(map[string]int)
	frames := perfFrames(t, perf) // with the stacks of idle CPUs
	kerneltest.Busy(t)
	maps.Copy(frames, perfFrames(t, perf))
	for f := range frames {
		if !list.InText(f.addr) {
			continue
		}
		got := nameOf(t, snapshot, f)
		names, start := list.Below(f.addr)
		switch {
		case got == f.symbol:
			differences["none"]++
		case got == "" && (strings.HasPrefix(f.symbol, "__pfx_") || strings.HasSuffix(f.symbol, "_start") || strings.HasSuffix(f.symbol, "_end")):
			differences["padding"]++
		case assert.Contains(t, append(names, "[unknown]"), f.symbol, "perf's name for %x belongs to another address", f.addr):
			_, before := list.Below(f.addr - 1)
			switch {
			case f.caller && start == f.addr && assert.Contains(t, list.Names[before], got, "%x", f.addr):
				differences["call that does not return"]++
			case assert.Contains(t, names, got, "%x: perf says %s", f.addr, f.symbol):
				differences["alias"]++
			}
		}
	}
	t.Logf("differences: %v", differences)
	assert.Greater(t, differences["none"], 100)
}

// nameOf rewrites a message with the frame and returns the frame's name.
func nameOf(t *testing.T, snapshot *timeline.Snapshot, f perfFrame) string {
	t.Helper()
	stack := []frame{{Address: f.addr, Type: "kernel"}}
	if f.caller {
		stack = append([]frame{{Address: 1, Type: "native"}}, stack...)
	}
	m := rewritetest.NewMessage().Profile(nil, "").Sample(stack...)
	known := rewrite.Sources{Snapshot: func() *timeline.Snapshot { return snapshot }}
	pd := rewrite.New(rewrite.Options{}).Rewrite(m.Profiles, known).Profiles
	require.NoError(t, rewritetest.CheckSent(pd))
	rewritten := rewritetest.Samples(pd)[0].Stack
	lines := rewritten[len(rewritten)-1].Lines
	if len(lines) == 0 {
		return ""
	}
	return lines[0].System
}

// perfScript has perf record for some seconds, and returns the output of perf script.
func perfScript(t *testing.T, perf string) (text []byte, err error) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "perf.data")
	out, err := exec.CommandContext(t.Context(), perf, "record", "--no-bpf-event", "-o", data, "-e", "cpu-clock:k", "-F", "999", "-a", "-g", "--", "sleep", "2").CombinedOutput()
	require.NoError(t, err, "%s", out)
	script := exec.CommandContext(t.Context(), perf, "script", "-i", data, "-F", "ip,sym", "--kallsyms", "/proc/kallsyms")
	var stderr bytes.Buffer
	script.Stderr = &stderr
	if text, err = script.Output(); err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	return text, err
}

// perfFrames returns the distinct kernel frames of some seconds. perf cannot always read the
// records of BPF programs: if there are several readers, the kernel writes some records too long.
func perfFrames(t *testing.T, perf string) map[perfFrame]bool {
	t.Helper()
	text, err := perfScript(t, perf)
	for tries := 1; err != nil && tries < 5; tries++ {
		t.Log("trying again, because perf failed: ", err)
		text, err = perfScript(t, perf)
	}
	require.NoError(t, err)
	frames := make(map[perfFrame]bool)
	caller := false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 { // the end of a stack
			caller = false
			continue
		}
		addr, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil || len(fields) < 2 {
			continue
		}
		frames[perfFrame{addr, fields[1], caller}] = true
		caller = true
	}
	return frames
}
