// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestOrdinaryUsers: whatever an ordinary user lacks for a command, its first words are how to run it.
func TestOrdinaryUsers(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedRestrictedPerf(t)
	kerneltest.Unprivileged(t, func(t *testing.T) {
		for _, args := range []string{"top --duration 1s", "top --bpf --duration 1s", "top --off-cpu --duration 1s", "list", "lookup vfs_read", "annotate", "watch"} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			var errs strings.Builder
			cmd := newCommand()
			cmd.SetIn(strings.NewReader("ffffffff81000000\n"))
			cmd.SetOut(new(strings.Builder))
			cmd.SetErr(endOf{&errs, "run it as root", cancel})
			_ = runCommand(ctx, cmd, strings.Fields(args)) // watch goes on
			cancel()
			_, said, _ := strings.Cut(errs.String(), ": ")
			assert.True(t, strings.HasPrefix(said, "run it as root: sudo kernelsym "+strings.Fields(args)[0]), "%s: %s", args, errs.String())
		}
	})
}

// endOf ends a command when it prints a text.
type endOf struct {
	to   *strings.Builder
	text string
	end  func()
}

func (w endOf) Write(p []byte) (int, error) {
	w.to.Write(p)
	if strings.Contains(w.to.String(), w.text) {
		w.end()
	}
	return len(p), nil
}
