// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestInterruptedBeforeAnAnswer verifies that an interrupted command gives no answer: neither that
// something is missing nor that it does not exist.
func TestInterruptedBeforeAnAnswer(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	interrupt := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupt)
	for _, line := range []string{
		"doctor", "doctor -o json", "list", "list vmlinux", "lookup schedule", "lookup 0xffffffff81000000", "annotate",
		"top", "top --duration 1h", "top --bpf -o json",
	} {
		cmd := newCommand()
		var out bytes.Buffer
		cmd.SetIn(strings.NewReader("at ffffffff81000000\n"))
		cmd.SetOut(&out)
		cmd.SetErr(&bytes.Buffer{})
		require.ErrorIs(t, runCommand(ctx, cmd, strings.Fields(line)), interrupt, line)
		assert.Empty(t, out.String(), line)
	}
}

// TestSecondInterruptKills verifies that a second interrupt kills a command that waits for its
// input, which the first one does not reach.
func TestSecondInterruptKills(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedAddresses(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := tool(ctx, "annotate")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(in, "ready\n")
	require.NoError(t, err)
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for err = nil; err == nil; {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		select {
		case err = <-ended:
		case <-time.After(100 * time.Millisecond):
		}
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	assert.Equal(t, syscall.SIGINT, status.Signal(), "%v", err)
}

// TestInputFromATerminal verifies that a command that reads from a terminal prints what it expects. With arguments, it reads
// and prints nothing of that.
func TestInputFromATerminal(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedAddresses(t)
	for line, want := range map[string]string{
		"lookup":   "Reading addresses, offsets and names of functions from the terminal.",
		"annotate": "Reading text from the terminal.",
	} {
		terminal := kerneltest.StartOnTerminal(t, tool(t.Context(), line))
		terminal.WaitFor("sentence", func(output string) bool { return strings.Contains(output, want) })
		terminal.Type("\x04")
		output, _, err := terminal.Ended()
		require.NoError(t, err, output)
		assert.Contains(t, output, "`kernelsym "+line+" --help` explains it.")
	}
	terminal := kerneltest.StartOnTerminal(t, tool(t.Context(), "lookup", "schedule"))
	output, _, err := terminal.Ended()
	require.NoError(t, err)
	assert.Contains(t, output, "schedule")
	assert.NotContains(t, output, "terminal")
}
