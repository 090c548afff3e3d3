// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"

	"github.com/kernelsym/kernelsym/internal/test/kernelload"
)

// topStarts is how often top is started; the median counts.
const topStarts = 5

// benchTop measures what `kernelsym top` costs and how soon it shows something, as people use it:
// without flags and on a terminal. All CPUs run kernel code during the measurement.
func benchTop(tool string, rounds int) (err error) {
	ctx, stop := context.WithCancel(context.Background())
	loaded := make(chan error, 1)
	go func() { loaded <- kernelload.Run(ctx, runtime.NumCPU()) }()
	defer func() { stop(); err = errors.Join(err, <-loaded) }()
	var samples, tables []time.Duration
	for range topStarts {
		t, err := startTop(ctx, tool)
		if err != nil {
			return err
		}
		sampling, table, waitErr := t.waitForTable()
		if err := errors.Join(waitErr, t.quit()); err != nil {
			return err
		}
		samples, tables = append(samples, sampling), append(tables, table)
	}
	report("top_first_sample_ms", float64(median(samples).Microseconds())/1000)
	report("top_first_table_ms", float64(median(tables).Microseconds())/1000)
	return benchTopCPU(ctx, tool, duration(rounds))
}

// benchTopCPU measures the CPU time of top during some refreshes.
func benchTopCPU(ctx context.Context, tool string, during time.Duration) error {
	t, err := startTop(ctx, tool)
	if err != nil {
		return err
	}
	_, _, err = t.waitForTable()
	if err != nil {
		return errors.Join(err, t.quit())
	}
	began := wall()
	before, beforeErr := t.cpu()
	time.Sleep(during)
	after, afterErr := t.cpu()
	took := wall() - began
	if err := errors.Join(beforeErr, afterErr, t.quit()); err != nil {
		return err
	}
	report("top_cpu_percent", 100*ratio(after-before, took))
	return nil
}

// topRun is a `kernelsym top` on a terminal of its own.
type topRun struct {
	cmd     *exec.Cmd
	control *os.File
	began   time.Duration
	shown   chan time.Duration // receives the time when the first table was on the terminal
	reading sync.WaitGroup
}

func startTop(ctx context.Context, tool string) (*topRun, error) {
	t := &topRun{cmd: exec.CommandContext(ctx, tool, "top"), began: wall(), shown: make(chan time.Duration, 1)}
	t.cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	var err error
	if t.control, err = pty.StartWithSize(t.cmd, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
		return nil, err
	}
	t.reading.Go(t.read)
	return t, nil
}

// read reads the output on the terminal until the command ends.
func (t *topRun) read() {
	defer close(t.shown)
	var output []byte
	buf := make([]byte, 1<<12)
	for found := false; ; {
		n, err := t.control.Read(buf)
		if err != nil { // EIO: no process has it open any more
			return
		}
		if found {
			continue
		}
		output = append(output, buf[:n]...)
		if found = bytes.Contains(output, []byte("Percent of all CPU time")); found {
			t.shown <- wall()
		}
	}
}

// waitForTable waits for the first table. It returns how long after the start each CPU that ran
// kernel code since then had been sampled, and how long after the start there was a table.
func (t *topRun) waitForTable() (sampling, table time.Duration, err error) {
	rings := 2 * runtime.NumCPU() // for BPF programs as well
	for n := 0; n < rings; time.Sleep(100 * time.Microsecond) {
		if n, err = t.rings(); err != nil {
			return 0, 0, err
		}
		if wall()-t.began > time.Minute {
			return 0, 0, fmt.Errorf("top has opened %d perf events of %d in a minute", n, rings)
		}
	}
	const period = time.Second / 199 // its default
	sampling = wall() - t.began + period
	select {
	case at, ok := <-t.shown:
		if !ok {
			return 0, 0, errors.New("top ended before it showed a table")
		}
		return sampling, at - t.began, nil
	case <-time.After(time.Minute):
		return 0, 0, errors.New("top has shown no table in a minute")
	}
}

// rings returns how many perf events top has open.
func (t *topRun) rings() (n int, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", t.cmd.Process.Pid)
	fds, err := os.ReadDir(dir)
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.Contains(target, "[perf_event]") {
			n++
		}
	}
	return n, err
}

// cpu returns the CPU time that top has used so far.
func (t *topRun) cpu() (time.Duration, error) { return cpuOf(t.cmd.Process.Pid) }

// userTick is the unit of CPU time in /proc: USER_HZ is 100.
const userTick = 10 * time.Millisecond

// cpuOf returns the CPU time that a process has used so far.
func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	fields := bytes.Fields(rest)
	const utime, stime = 14 - 3, 15 - 3 // proc_pid_stat(5); the first of fields is the third
	var sum time.Duration
	for _, i := range []int{utime, stime} {
		ticks, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * userTick
	}
	return sum, nil
}

// quit ends top as a user does.
func (t *topRun) quit() error {
	_, err := io.WriteString(t.control, "q")
	err = errors.Join(err, t.cmd.Wait())
	t.reading.Wait()
	return errors.Join(err, t.control.Close())
}
