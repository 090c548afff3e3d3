// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestSessions attaches a program to the entry and the exit of a function at once (Linux 7.0), before a
// source starts and while it runs. Its trampoline is like any other.
func TestSessions(t *testing.T) {
	kerneltest.NeedBPF(t)
	detach := kerneltest.AttachTracing(t, kerneltest.FSession, "session", kerneltest.SyscallFunction(t, "getpgid"))
	latest := run(t, newSource(everything))
	require.NoError(t, latest().degraded)
	agree(t, latest)
	require.NotEmpty(t, trampolines(latest().table))
	again := kerneltest.AttachTracing(t, kerneltest.FSession, "again", kerneltest.SyscallFunction(t, "getsid"))
	eventually(t, latest, "the program is there", func(table *timeline.Table) bool { return isLoaded(table, "_again") })
	agree(t, latest)
	detach()
	again()
	eventually(t, latest, "the program is gone", func(table *timeline.Table) bool { return !isLoaded(table, "_again") })
	agree(t, latest)
}

// TestMultiLinks attaches a program to many functions by one link, which makes a trampoline for each of them at once.
func TestMultiLinks(t *testing.T) {
	kerneltest.NeedBPF(t)
	functions := kerneltest.TraceableFunctions(t, 1000)
	detach := kerneltest.AttachTracing(t, kerneltest.FEntryMulti, "before", functions[:500]...)
	latest := run(t, newSource(everything))
	require.NoError(t, latest().degraded)
	agree(t, latest)
	assert.GreaterOrEqual(t, len(trampolines(latest().table)), 500)
	again := kerneltest.AttachTracing(t, kerneltest.FEntryMulti, "again", functions[500:]...)
	eventually(t, latest, "all trampolines are there", func(table *timeline.Table) bool { return len(trampolines(table)) >= 1000 })
	agree(t, latest)
	detach()
	again()
	eventually(t, latest, "all are gone", func(table *timeline.Table) bool { return len(trampolines(table)) == 0 })
	agree(t, latest)
}

func isLoaded(table *timeline.Table, suffix string) bool {
	for _, f := range table.Loaded() {
		if strings.HasSuffix(f.Name(), suffix) {
			return true
		}
	}
	return false
}
