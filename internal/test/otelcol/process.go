// SPDX-License-Identifier: Apache-2.0

// Package otelcol runs a built collector for tests and measurements.
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

// Patience is how long to wait for something that takes a moment. It is much longer than a busy
// machine needs.
const Patience = time.Minute

// A Process is a running collector. Its methods are safe for concurrent use.
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

// Start starts a command that becomes a collector. The collector's output is its log.
func Start(cmd *exec.Cmd) (*Process, error) { return StartBy((*exec.Cmd).Start, cmd) }

// StartBy is Start with a function that starts the command.
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

// Log returns the collector's output so far.
func (p *Process) Log() string { return p.log.String() }

// PID returns the process ID of the collector.
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

// Signal sends a signal to the collector.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Stop ends the collector, and returns an error if it does not end cleanly. Later calls return the
// same error.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // if it still runs
	select {
	case <-p.ended:
		return p.err
	case <-time.After(5 * Patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // so that the log shows what it is doing
		<-p.ended
		return fmt.Errorf("the collector did not stop: %w", p.err)
	}
}

// Reload has the collector read its configuration again.
func (p *Process) Reload() error { return p.cmd.Process.Signal(syscall.SIGHUP) }

// ports is the number that FreeAddress tried last. The first one differs between processes. The
// ports are below the ports that the kernel assigns to connections. A connection, even to a port
// without a listener, could otherwise take a port that was free just before.
var ports = func() *atomic.Uint32 {
	var p atomic.Uint32
	p.Store(rand.Uint32())
	return &p
}()

// FreeAddress returns a local address without a listener. It does not soon return the same one
// again.
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
