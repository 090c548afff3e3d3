// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// startWatch starts the command. Its lines come as they are printed, and those of
// errors; stop interrupts it, and it has to end well.
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
	return all, warnings, func() {
		cancel()
		require.NoError(t, <-ended)
		for range all { // up to the end
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

// TestWatchBegins verifies that it says at once what it prints, and what is there:
// before anything comes or goes.
func TestWatchBegins(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.LoadBPF(t, kerneltest.SmallProgram("there", 1, 1))
	lines, errs, stop := startWatch(t)
	defer stop()
	assert.True(t, strings.HasPrefix(<-lines, "TIME "))
	assert.Regexp(t, `^Watching: \d+ modules? and [1-9]\d* BPF functions? are there now\. Ctrl-C ends it\.$`, <-errs)
}

// TestWatchRefused verifies that it says what is missing.
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
	_ = cmd.Process.Kill() // it goes on with modules
	_ = cmd.Wait()
}

// until loads and unloads a program until a line about it is there, as what is there
// when the command starts is not printed.
func until(t *testing.T, lines <-chan string, name string, wanted func(line string) bool) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		p := kerneltest.LoadBPF(t, kerneltest.SmallProgram(name, 1, 1))
		time.Sleep(20 * time.Millisecond) // what goes at once is no change
		require.NoError(t, p.Close())
		for {
			select {
			case line := <-lines:
				if wanted(line) {
					return
				}
				continue
			case <-time.After(20 * time.Millisecond):
			}
			break
		}
	}
	t.Fatal("the program is not printed")
}

func TestWatchJSON(t *testing.T) {
	kerneltest.NeedBPF(t)
	lines, _, stop := startWatch(t, "--output", "json")
	defer stop()
	for _, event := range []string{"load", "unload"} {
		until(t, lines, "watched", func(line string) bool {
			var got struct {
				Time    time.Time `json:"time"`
				Event   string    `json:"event"`
				Kind    string    `json:"kind"`
				Address string    `json:"address"`
				Bytes   int       `json:"bytes"`
				Name    string    `json:"name"`
				Program int       `json:"program_id"`
				Delay   float64   `json:"delay_ms"`
				Process *procname.Process
			}
			require.NoError(t, json.Unmarshal([]byte(line), &got))
			if !strings.HasSuffix(got.Name, "_watched") || got.Event != event {
				return false
			}
			assert.Equal(t, "bpf", got.Kind)
			assert.Regexp(t, "^0xffff[0-9a-f]{12}$", got.Address)
			assert.Positive(t, got.Bytes)
			assert.Positive(t, got.Program)
			assert.Positive(t, got.Delay)
			assert.WithinDuration(t, time.Now(), got.Time, time.Minute)
			if event == "unload" {
				assert.Nil(t, got.Process, "it is not certain")
			} else if assert.NotNil(t, got.Process) {
				assert.Equal(t, uint32(os.Getpid()), got.Process.PID)
				assert.NotEmpty(t, got.Process.Name)
			}
			return true
		})
	}
}

func TestWatchText(t *testing.T) {
	kerneltest.NeedBPF(t)
	lines, _, stop := startWatch(t, "--wide")
	defer stop()
	header := ""
	until(t, lines, "printed", func(line string) bool {
		if header == "" {
			header = line
			assert.True(t, strings.HasPrefix(line, "TIME "))
		}
		if !strings.HasSuffix(line, "_printed") || strings.Fields(line)[1] != "load" {
			return false
		}
		for i, title := range strings.Fields(header) {
			assert.NotEmpty(t, strings.Fields(line)[i], title)
		}
		assert.Equal(t, strings.Index(header, "NAME"), strings.Index(line, "bpf_prog_"), "the columns are aligned")
		return true
	})
}

func TestWatchErrors(t *testing.T) {
	_, errs, err := execute(t, "", "watch", "--output", "yaml")
	require.ErrorIs(t, err, errUsage)
	assert.Contains(t, errs, "yaml")
}

// brokenPrinter is a pipe that nobody reads any more.
type brokenPrinter struct{}

func (brokenPrinter) begin() error        { return errPipe }
func (brokenPrinter) print(*change) error { return errPipe }

func TestWatchEndsWhenNobodyReads(t *testing.T) {
	w := watch{printer: brokenPrinter{}}
	assert.True(t, w.print(nil, 0, 0))
	assert.False(t, w.print([]change{{}}, 0, 0))
	assert.ErrorIs(t, w.failed, errPipe)
}

// TestTextOfWhatIsNotKnown has a line of which only the least is known.
func TestTextOfWhatIsNotKnown(t *testing.T) {
	var out strings.Builder
	p := newTextPrinter(&out, true)
	require.NoError(t, p.begin())
	require.NoError(t, p.print(&change{Event: eventUnload, Kind: "module", Address: 0xffffffffc0000000, Bytes: 4096, Name: "veth"}))
	delay := milliseconds(1500 * time.Microsecond)
	require.NoError(t, p.print(&change{
		Event: eventLoad, Kind: "ool", Name: "page", Process: &procname.Process{PID: 7}, Delay: &delay, Program: 9,
	}))
	const header = "TIME          EVENT   KIND        ADDRESS             BYTES   PROGRAM  DELAY/ms  PROCESS                 NAME"
	assert.Equal(t, header+`
00:00:00.000  unload  module      ffffffffc0000000     4096         -         -  -                       veth
00:00:00.000  load    ool         0000000000000000        -         9       1.5  7                       page
`, out.String())
}

// TestNarrowTable verifies that 80 columns suffice for the longest name.
func TestNarrowTable(t *testing.T) {
	var out strings.Builder
	p := newTextPrinter(&out, false)
	require.NoError(t, p.begin())
	require.NoError(t, p.print(&change{Event: eventUnload, Kind: "module", Address: 0xffffffffc0000000, Bytes: 4096, Name: "veth"}))
	require.NoError(t, p.print(&change{
		Event: eventLoad, Name: "bpf_prog_0123456789abcdef_" + strings.Repeat("n", 15), Process: &procname.Process{PID: 12345, Name: strings.Repeat("p", 15)},
	}))
	assert.Equal(t, `
TIME     EVENT  PROCESS                NAME
00:00:00 unload -                      veth
00:00:00 load   ppppppppppppppp[12345] bpf_prog_0123456789abcdef_nnnnnnnnnnnnnnn
`, "\n"+out.String())
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80)
	}
	out.Reset()
	p.colors = true
	require.NoError(t, p.print(&change{Event: eventLoad, Name: "f"}))
	assert.Equal(t, "00:00:00 \x1b[32mload  \x1b[0m -                      f\n", out.String())
}
