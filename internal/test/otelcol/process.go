// SPDX-License-Identifier: Apache-2.0

// Package otelcol runs a built collector for those who test and measure it.
package otelcol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// FeatureGates is the flag that lets a collector have pipelines of profiles, and its
// health check extension show the status of components.
const FeatureGates = "--feature-gates=service.profilesSupport,extension.healthcheck.useComponentStatus"

// Patience is how long to wait for what takes a moment: much longer than a busy
// machine needs.
const Patience = time.Minute

// A Process is a collector that runs. Its methods are safe for concurrent use.
type Process struct {
	cmd   *exec.Cmd
	log   log
	ended chan struct{} // closed when err is final
	err   error
}

// log is a buffer that is safe for concurrent use.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Start starts a command that becomes a collector. What it prints is its log.
func Start(cmd *exec.Cmd) (*Process, error) { return StartBy((*exec.Cmd).Start, cmd) }

// StartBy is Start, by a function that starts the command.
func StartBy(start func(*exec.Cmd) error, cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := start(cmd); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Log returns what it has printed so far.
func (p *Process) Log() string { return p.log.String() }

// PID returns its process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Eventually calls try until it returns no error. It gives up after several times Patience, or
// when the collector or ctx ends.
func (p *Process) Eventually(ctx context.Context, what string, try func() error) error {
	deadline := time.After(5 * Patience)
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(err, ctx.Err()))
		case <-p.ended:
			return fmt.Errorf("%s: the collector has ended: %w", what, errors.Join(err, p.err))
		case <-deadline:
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Signal sends it a signal.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Stop has it end, and returns an error if it does not end well. Called again, it
// returns the same.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // if it still runs
	select {
	case <-p.ended:
		return p.err
	case <-time.After(5 * Patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // so that the log says what it does
		<-p.ended
		return fmt.Errorf("the collector did not stop: %w", p.err)
	}
}

// Reload has it read its configuration again.
func (p *Process) Reload() error { return p.cmd.Process.Signal(syscall.SIGHUP) }

// ports is what FreeAddress tried last, from a beginning that differs between processes. It is
// below the ports that the kernel gives to connections: one of those, or one that somebody
// makes to a port at which nobody listens yet, can take a port that was free just before.
var ports = func() *atomic.Uint32 {
	var p atomic.Uint32
	p.Store(rand.Uint32())
	return &p
}()

// FreeAddress returns a local address on which nothing listens. It returns none twice soon.
func FreeAddress(ctx context.Context) (string, error) {
	const first, n, tries = 16 << 10, 16 << 10, 100
	for try := 1; ; try++ {
		address := fmt.Sprintf("127.0.0.1:%d", first+ports.Add(1)%n)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		switch {
		case err == nil:
			return address, l.Close()
		case try == tries:
			return "", err
		}
	}
}
