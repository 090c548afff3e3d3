// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// TestInterruptedBeforeAnAnswer: what was not looked at to the end is no answer, neither that
// something is missing nor that it is not there.
func TestInterruptedBeforeAnAnswer(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	interrupt := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupt)
	for _, line := range []string{
		"doctor", "doctor --bundle -", "list", "list vmlinux", "lookup schedule", "lookup 0xffffffff81000000", "annotate",
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
