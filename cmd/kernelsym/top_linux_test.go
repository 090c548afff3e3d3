// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// tool returns a command that runs the tool in a process of its own.
func tool(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", toolEnv+"="+strings.Join(args, " "))
	return cmd
}

// needTop skips the test unless this machine can be sampled with names.
func needTop(t *testing.T) {
	t.Helper()
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
}

// topJSON samples this machine.
func topJSON(t *testing.T, args ...string) hot.JSON {
	t.Helper()
	out, errs, err := execute(t, "", append([]string{"top", "--output", "json", "-n", "0"}, args...)...)
	require.NoError(t, err, errs)
	var j hot.JSON
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&j))
	return j
}

// topFunction samples threads of this process until there are enough named samples, however long
// the machine stalls. It returns the row of a function and the number of these samples.
func topFunction(t *testing.T, name string, args ...string) (j hot.JSON, row hot.JSONFunction, named int64) {
	t.Helper()
	const enough = 30
	for end := time.Now().Add(5 * time.Minute); ; {
		j = topJSON(t, append(args, "-F", "997")...)
		found := false
		named = j.Samples.Kernel
		for _, f := range j.Functions {
			switch f.Function {
			case name:
				row, found = f, true
			case "[no name]":
				named -= f.Self
			}
		}
		if found && named >= enough {
			return j, row, named
		}
		ready := named >= enough && j.Frames.Named == j.Frames.All
		require.False(t, ready || time.Now().After(end), "%s is not among the functions: %+v", name, j)
		t.Logf("sampling again: %d samples of the kernel, %d of %d frames named", j.Samples.Kernel, j.Frames.Named, j.Frames.All)
	}
}

// spin keeps a thread in a BPF program until stop is called, and returns the kernel's name of the
// program.
func spin(t *testing.T) (name string, tid int, stop func()) {
	t.Helper()
	prog := kerneltest.LoadBPF(t, kerneltest.LoopProgram("kernelsym_spin", 77, 11))
	info, err := prog.Info()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan int)
	var wait sync.WaitGroup
	wait.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- unix.Gettid()
		for ctx.Err() == nil {
			kerneltest.RunBPF(t, prog, 1000)
		}
	})
	return "bpf_prog_" + info.Tag + "_kernelsym_spin", <-started, func() { cancel(); wait.Wait() }
}

// TestTopShowsAHotFunction verifies that a BPF program has nearly all kernel time of a thread that
// runs nothing else.
func TestTopShowsAHotFunction(t *testing.T) {
	kerneltest.SameInEachKernel(t) // there, package live does the same
	needTop(t)
	kerneltest.NeedBPF(t)
	name, tid, stop := spin(t)
	defer stop()
	j, row, named := topFunction(t, name, "-t", strconv.Itoa(tid), "--duration", "3s")
	assert.Equal(t, "[bpf]", row.Module)
	assert.Greater(t, float64(row.Self), 0.5*float64(named), "the rest is the system call and interrupts")
	assert.InEpsilon(t, 100*float64(row.Self)/j.Samples.Possible, row.SelfPercent, 1e-6)
	assert.LessOrEqual(t, row.SelfPercent, 100/float64(j.CPUs)*1.1, "one thread is on one CPU at a time")
}

// TestTopOfAProcess verifies that a process includes all its threads, and no others.
func TestTopOfAProcess(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needTop(t)
	kerneltest.NeedBPF(t)
	name, _, stop := spin(t)
	defer stop()
	none := topJSON(t, "-p", "1", "--duration", "300ms")
	for _, f := range none.Functions {
		assert.NotEqual(t, name, f.Function, "it is in another process")
	}
	topFunction(t, name, "-p", strconv.Itoa(os.Getpid()), "--duration", "1s")
}

// TestTopOnOneCPU verifies that shares are relative to the sampled CPUs.
func TestTopOnOneCPU(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needTop(t)
	j := topJSON(t, "-C", "0", "-d", "0.5", "-F", "499")
	assert.Equal(t, 1, j.CPUs)
	assert.Equal(t, 499, j.Frequency)
	assert.Equal(t, "all CPU time", j.PercentOf)
	assert.InEpsilon(t, 499*j.Seconds, j.Samples.Possible, 1e-6)
}

// TestTopPrintsOnce verifies that top prints a table if the output is not a terminal.
func TestTopPrintsOnce(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needTop(t)
	kerneltest.Busy(t)
	out, errs, err := execute(t, "", "top", "-d", "0.5", "-n", "5")
	require.NoError(t, err)
	assert.Empty(t, errs)
	header, table, found := strings.Cut(out, "\n\n")
	require.True(t, found, out)
	assert.Contains(t, header, "cpu-clock at 199 Hz on ")
	assert.Contains(t, header, "Percent of all CPU time: kernel ")
	assert.Regexp(t, `^ *SELF +TOTAL +FUNCTION +MODULE\n([^\n]+\n){0,5}$`, table, "a machine that stands still has fewer functions")
}

// TestTopOnATerminal verifies that keys and signals end top, and that the terminal is restored.
func TestTopOnATerminal(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needTop(t)
	kerneltest.Busy(t)
	for name, end := range map[string]func(term *kerneltest.Terminal, p *os.Process) error{
		"key":  func(term *kerneltest.Terminal, _ *os.Process) error { term.Type("q"); return nil },
		"INT":  func(_ *kerneltest.Terminal, p *os.Process) error { return p.Signal(syscall.SIGINT) },
		"TERM": func(_ *kerneltest.Terminal, p *os.Process) error { return p.Signal(syscall.SIGTERM) },
		"HUP":  func(_ *kerneltest.Terminal, p *os.Process) error { return p.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			cmd := tool(t.Context(), "top", "-d", "0.2")
			term := kerneltest.StartOnTerminal(t, cmd)
			term.WaitFor("function", func(output string) bool { return strings.Contains(output, "vmlinux") })
			term.Type("?")
			term.WaitFor("help", func(output string) bool { return strings.Contains(output, "samples of the pause are not counted") })
			require.NoError(t, end(term, cmd.Process))
			output, restored, err := term.Ended()
			require.NoError(t, err)
			assert.True(t, restored, "settings")
			assert.Equal(t, strings.LastIndex(output, "\x1b[?1049"), strings.LastIndex(output, "\x1b[?1049l"), "the alternate screen")
			assert.Equal(t, strings.LastIndex(output, "\x1b[?25"), strings.LastIndex(output, "\x1b[?25h"), "the cursor")
		})
	}
}

// TestTopWithoutAKeyboard verifies that a table is printed once if the input is not a terminal.
func TestTopWithoutAKeyboard(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needTop(t)
	kerneltest.Busy(t)
	shell := exec.CommandContext(t.Context(), "sh", "-c", "exec /proc/self/fd/3 </dev/null")
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer self.Close()
	shell.ExtraFiles = []*os.File{self}
	shell.Env = tool(t.Context(), "top", "-d", "0.5", "-n", "5").Env
	term := kerneltest.StartOnTerminal(t, shell)
	output, _, err := term.Ended()
	require.NoError(t, err)
	assert.Contains(t, output, "Percent of all CPU time: kernel ")
	assert.NotContains(t, output, "\x1b[?1049", "the alternate screen")
}

// TestTopThatIsInterrupted verifies that top prints the samples so far.
func TestTopThatIsInterrupted(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needTop(t)
	for wait := time.Second; ; wait *= 2 {
		cmd := tool(t.Context(), "top", "--duration", "1h", "-o", "json")
		var out bytes.Buffer
		cmd.Stdout = &out
		require.NoError(t, cmd.Start())
		waitForRings(t, cmd.Process.Pid) // or only the rings for new symbols
		time.Sleep(wait)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		err := cmd.Wait()
		if err != nil && out.Len() == 0 && wait < time.Minute {
			t.Log("again: it had not begun to sample")
			continue
		}
		require.NoError(t, err)
		var j hot.JSON
		require.NoError(t, json.Unmarshal(out.Bytes(), &j), out.String())
		assert.Positive(t, j.Samples.Possible)
		return
	}
}

// TestTopOfTheWrongProcess verifies that an id is rejected unless it is that of a process in this
// PID namespace.
func TestTopOfTheWrongProcess(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	i := slices.IndexFunc(threads, func(e os.DirEntry) bool { return e.Name() != pid })
	require.GreaterOrEqual(t, i, 0, "the runtime has several threads")
	tid := threads[i].Name()
	assert.Contains(t, wrong(t, "top", "-p", tid), tid+" is a thread of process "+pid+": -p takes processes")

	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, pid), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, pid, "status"), []byte("Tgid:\t"+pid+"\nNSpid:\t"+pid+"\t7\n"), 0o600))
	require.NoError(t, os.Symlink(pid, filepath.Join(dir, "self")))
	for _, flag := range []string{"-p", "-t"} {
		assert.Contains(t, wrong(t, "top", flag, pid, "--procfs", dir),
			"-p and -t take ids of this process's PID namespace: --procfs "+dir+" is of another one")
	}
}

// TestTopWithoutCycles verifies that the error of a CPU without a cycle counter says what to use in its place.
func TestTopWithoutCycles(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedPerf(t)
	if hasCycles("/sys") {
		t.Skip("this CPU has a cycle counter: the error without one is not tested")
	}
	_, errs, err := execute(t, "", "top", "-e", "cycles", "--duration", "1ms")
	require.ErrorIs(t, err, perfring.ErrUnsupported)
	assert.Contains(t, errs, "; use --event cpu-clock\n")
}
