// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// A Terminal is a pseudo terminal on which a command runs.
type Terminal struct {
	t       testing.TB
	cmd     *exec.Cmd
	control *os.File
	tty     *os.File
	before  unix.Termios
	reading sync.WaitGroup

	mu     sync.Mutex
	output bytes.Buffer
}

// StartOnTerminal starts a command on a terminal of its own, with 100 columns and 30 rows. The test
// must call Ended.
func StartOnTerminal(t testing.TB, cmd *exec.Cmd) *Terminal {
	t.Helper()
	control, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo terminals (%v): output on a terminal is not tested", err)
	}
	term := &Terminal{t: t, cmd: cmd, control: control, tty: tty}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	term.before = term.settings()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term.reading.Go(func() {
		buf := make([]byte, 1<<12)
		for {
			n, err := control.Read(buf)
			term.mu.Lock()
			term.output.Write(buf[:n])
			term.mu.Unlock()
			if err != nil { // EIO: no process has it open any more
				return
			}
		}
	})
	return term
}

func (term *Terminal) settings() unix.Termios {
	term.t.Helper()
	settings, err := unix.IoctlGetTermios(int(term.tty.Fd()), unix.TCGETS)
	if err != nil {
		term.t.Fatal(err)
	}
	return *settings
}

// Output returns everything that was written to the terminal so far.
func (term *Terminal) Output() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.output.String()
}

// WaitFor waits until the condition holds for the output.
func (term *Terminal) WaitFor(what string, condition func(output string) bool) {
	term.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if condition(term.Output()) {
			return
		}
	}
	term.t.Fatalf("no %s on the terminal:\n%q", what, term.Output())
}

// Type types keys.
func (term *Terminal) Type(keys string) {
	term.t.Helper()
	if _, err := term.control.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// Ended waits until the command has ended. It returns everything that the command wrote, and
// whether the settings of the terminal are as they were.
func (term *Terminal) Ended() (output string, restored bool, err error) {
	term.t.Helper()
	err = term.cmd.Wait()
	restored = term.settings() == term.before
	_ = term.tty.Close()
	term.reading.Wait()
	_ = term.control.Close()
	return term.Output(), restored, err
}
