// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// errNotBooted means that the machine ended, or did nothing, before its first process ran.
var errNotBooted = errors.New("the machine did not boot")

var errTests = errors.New("tests failed")

// bootTime is how long a machine may take until its first process runs. It is a multiple of the
// time on a busy machine.
const bootTime = 5 * time.Minute

// boot starts a machine, which tests packages of a queue until none are left. The exit status of
// qemu does not matter, because it is 0 even after a panic.
func boot(ctx context.Context, j *job, q *queue, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	console, err := os.CreateTemp(o.runDir, "console")
	if err != nil {
		return err
	}
	defer console.Close()
	cmd := exec.CommandContext(ctx, j.kernel.qemu, append([]string{
		// With thread=multi, newer kernels panic now and then.
		"-accel", "tcg,thread=single", "-smp", "2", "-m", "3G",
		"-nodefaults", "-display", "none", "-no-reboot",
		"-kernel", j.kernel.image, "-initrd", j.initrd,
		"-append", "console=" + j.kernel.console + " panic=-1 quiet loglevel=4 rdinit=/init KERNELSYM_PORT=" + j.kernel.port + // in the environment of the first process
			" " + j.kernel.options + " " + o.append,
		"-serial", "file:" + console.Name(), "-chardev", "stdio,id=port",
	}, j.kernel.machine...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m := &machine{queue: q, in: in, silent: o.timeout + bootTime, watchdog: time.AfterFunc(bootTime, cancel)}
	m.follow(out)
	m.watchdog.Stop()
	_ = cmd.Process.Kill() // a machine that is done only needs to be switched off
	_ = cmd.Wait()
	if err = m.result(); err == nil || errors.Is(err, errTests) {
		return err
	}
	log, _ := io.ReadAll(console)
	return fmt.Errorf("%w; its console:\n%s", err, log)
}

// machine is a running machine.
type machine struct {
	queue    *queue
	in       io.Writer
	watchdog *time.Timer
	silent   time.Duration // how long it may print nothing: the tests of a package have a shorter limit

	booted, done, ok bool
	testing          string // package
	printed          strings.Builder
}

// follow passes on what the tests in the machine print, and gives it packages, until it is done.
func (m *machine) follow(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<26)
	for !m.done && lines.Scan() {
		m.watchdog.Reset(m.silent)
		line := strings.TrimRight(lines.Text(), "\r")
		switch {
		case line == markNext:
			m.booted = true
			m.flush()
			m.testing = m.queue.next()
			_, _ = io.WriteString(m.in, m.testing+"\n") // if this fails, the machine has ended
		case strings.HasPrefix(line, markDone):
			m.done, m.ok = true, line == markDone+"ok"
		default:
			fmt.Fprintln(&m.printed, line)
		}
	}
	m.flush()
}

// flush passes on what was printed since the last package.
func (m *machine) flush() {
	m.queue.print(m.printed.String())
	m.printed.Reset()
}

// result returns how the machine ended.
func (m *machine) result() error {
	switch {
	case m.done && m.ok:
		return nil
	case m.done:
		return errTests
	case !m.booted:
		return errNotBooted
	}
	return fmt.Errorf("the machine ended, or hung, before the tests did: FAIL %s", m.testing)
}

// What the first process of the machine prints; see init/main_linux.go.
const (
	markNext = "vm: next"
	markDone = "vm: done: "
)
