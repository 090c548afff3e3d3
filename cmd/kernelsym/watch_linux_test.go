// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// startWatch starts the command, and returns once it is watching. lines has its output as it is
// printed, and errs has its messages after that point. stop interrupts the command, which must end
// without an error.
func startWatch(t *testing.T, args ...string) (lines, errs <-chan string, stop func()) {
	t.Helper()
	out, printed := io.Pipe()
	errors, told := io.Pipe()
	cmd := newCommand()
	cmd.SetArgs(append([]string{"watch"}, args...))
	cmd.SetOut(printed)
	cmd.SetErr(told)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		_, _ = printed.Close(), told.Close()
	}()
	all, warnings := linesOf(out), linesOf(errors)
	begun := lineWith(t, warnings, "Watching: ")
	assert.Regexp(t, `^Watching: \d+ modules? and \d+ BPF functions? are loaded now\. Ctrl-C ends it\.$`, begun)
	return all, warnings, func() {
		cancel()
		require.NoError(t, <-ended)
		for range all { // read to the end
		}
		for range warnings {
		}
	}
}

func linesOf(r io.Reader) <-chan string {
	all := make(chan string, 1<<16)
	go func() {
		defer close(all)
		for s := bufio.NewScanner(r); s.Scan(); {
			all <- s.Text()
		}
	}()
	return all
}

// lineWith waits for a line that contains all parts.
func lineWith(t *testing.T, lines <-chan string, parts ...string) string {
	t.Helper()
	limit := time.After(5 * time.Minute)
	for {
		select {
		case line, ok := <-lines:
			require.True(t, ok, "it ended without %q", parts)
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return line
			}
		case <-limit:
			require.Fail(t, "there is no line", "with %q", parts)
		}
	}
}

// TestWatchBegins verifies that the heading is printed before anything comes or goes.
func TestWatchBegins(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedBPF(t)
	lines, _, stop := startWatch(t)
	defer stop()
	assert.True(t, strings.HasPrefix(<-lines, "TIME "))
}

// TestWatchRefused verifies that the command reports what is missing.
func TestWatchRefused(t *testing.T) {
	kerneltest.NeedRestrictedPerf(t)
	cmd := exec.CommandContext(t.Context(), kerneltest.Built(t, kerneltest.Tool), "watch", "--procfs", t.TempDir())
	errs, told, err := os.Pipe()
	require.NoError(t, err)
	defer errs.Close()
	cmd.Stderr = told
	require.NoError(t, kerneltest.StartWith(cmd)) // without any capability
	_ = told.Close()
	found := false
	for s := bufio.NewScanner(errs); !found && s.Scan(); {
		found = strings.HasPrefix(s.Text(), "Warning: bpf: BPF functions are not watched: ") && strings.Contains(s.Text(), "grant CAP_PERFMON")
	}
	assert.True(t, found)
	_ = cmd.Process.Kill() // it keeps watching modules
	_ = cmd.Wait()
}

// loadAndUnload loads a program, and unloads it once its line is printed. It returns the lines of
// both events.
func loadAndUnload(t *testing.T, lines <-chan string, load, unload string) (loaded, unloaded string) {
	t.Helper()
	prog := kerneltest.LoadBPF(t, kerneltest.Distinct(kerneltest.SmallProgram("watched", 1, 1), rand.Int32()))
	info, err := prog.Info()
	require.NoError(t, err)
	name := "bpf_prog_" + info.Tag + "_watched"
	loaded = lineWith(t, lines, name, load)
	require.NoError(t, prog.Close())
	return loaded, lineWith(t, lines, name, unload)
}

// watchedLine is a line of JSON output.
type watchedLine struct {
	Time    time.Time         `json:"time"`
	Event   string            `json:"event"`
	Kind    string            `json:"kind"`
	Address string            `json:"address"`
	Bytes   int               `json:"bytes"`
	Name    string            `json:"name"`
	Program int               `json:"program_id"`
	Delay   *float64          `json:"delay_ms"`
	Process *procname.Process `json:"process"`
}

func TestWatchJSON(t *testing.T) {
	kerneltest.NeedBPF(t)
	lines, _, stop := startWatch(t, "--output", "json")
	defer stop()
	var loaded, unloaded watchedLine
	for end := time.Now().Add(5 * time.Minute); ; {
		load, unload := loadAndUnload(t, lines, `"event":"load"`, `"event":"unload"`)
		loaded, unloaded = watchedLine{}, watchedLine{}
		require.NoError(t, json.Unmarshal([]byte(load), &loaded))
		require.NoError(t, json.Unmarshal([]byte(unload), &unloaded))
		if loaded.Delay != nil && unloaded.Delay != nil {
			break
		}
		require.True(t, time.Now().Before(end), "%s\n%s", load, unload)
		t.Log("again: without a delay, a record of the kernel was lost, and with it who loaded the program")
	}
	for _, line := range []watchedLine{loaded, unloaded} {
		assert.Equal(t, "bpf", line.Kind)
		assert.Regexp(t, "^0xffff[0-9a-f]{12}$", line.Address)
		assert.Positive(t, line.Bytes)
		assert.Positive(t, line.Program)
		assert.Positive(t, *line.Delay)
		assert.WithinDuration(t, time.Now(), line.Time, 10*time.Minute)
	}
	assert.Nil(t, unloaded.Process, "it is not certain")
	require.NotNil(t, loaded.Process)
	assert.Equal(t, uint32(os.Getpid()), loaded.Process.PID)
	assert.NotEmpty(t, loaded.Process.Name)
}

func TestWatchText(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedBPF(t)
	lines, _, stop := startWatch(t)
	defer stop()
	header := lineWith(t, lines, "TIME ")
	line, _ := loadAndUnload(t, lines, " load ", " unload ")
	assert.Equal(t, strings.Index(header, "NAME"), strings.Index(line, "bpf_prog_"), "the columns are aligned")
}

func TestWatchErrors(t *testing.T) {
	_, errs, err := execute(t, "", "watch", "--output", "yaml")
	require.ErrorIs(t, err, errUsage)
	assert.Contains(t, errs, "yaml")
}

// TestWatchOfShortLives verifies that programs which are unloaded at once are shown or counted.
func TestWatchOfShortLives(t *testing.T) {
	kerneltest.NeedBPF(t)
	lines, errs, stop := startWatch(t)
	defer stop()
	go func() {
		for range lines { // the lines are ignored
		}
	}()
	end := time.Now().Add(5 * time.Minute)
	for n := int32(0); ; n++ {
		require.True(t, time.Now().Before(end), "it is not said")
		prog, err := kerneltest.NewBPF(kerneltest.SmallProgram("brief", n, 1))
		require.NoError(t, err)
		require.NoError(t, prog.Close())
		select {
		case line := <-errs:
			if strings.Contains(line, "BPF code") { // other lines report lost records
				assert.Regexp(t, `^[1-9]\d* pieces? of BPF code came and went before they could be shown\.$`, line)
				return
			}
		default:
		}
	}
}
