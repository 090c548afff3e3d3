// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestTrampolines attaches programs to functions of the kernel, before a source
// starts and while it runs.
func TestTrampolines(t *testing.T) {
	kerneltest.NeedBPF(t)
	before := kerneltest.AttachFentry(t, "before", kerneltest.SyscallFunction(t, "getpgid"))
	latest := run(t, newSource(everything))
	require.NoError(t, latest().degraded)
	agree(t, latest)
	had := trampolines(latest().table)
	require.NotEmpty(t, had)
	after := kerneltest.AttachFentry(t, "after", kerneltest.SyscallFunction(t, "getsid"))
	eventually(t, latest, "the trampoline is there", func(table *timeline.Table) bool {
		for addr := range trampolines(table) {
			if _, ok := had[addr]; !ok { // other tests can remove theirs
				return true
			}
		}
		return false
	})
	agree(t, latest)

	// A second program on the function: another trampoline with the same name replaces the first.
	was := trampolines(latest().table)
	second := kerneltest.AttachFentry(t, "second", kerneltest.SyscallFunction(t, "getsid"))
	eventually(t, latest, "the trampoline is another one", func(table *timeline.Table) bool {
		is := trampolines(table)
		for addr := range was {
			if _, ok := is[addr]; !ok {
				return true
			}
		}
		return false
	})
	agree(t, latest)
	for name, close := range map[string]func() error{"before": before.Close, "after": after.Close, "second": second.Close} {
		require.NoError(t, close(), name)
	}
	agree(t, latest)
	assert.NotEqual(t, was, trampolines(latest().table))
}

// TestWithoutTrampolines omits trampolines that are not wanted.
func TestWithoutTrampolines(t *testing.T) {
	kerneltest.NeedBPF(t)
	opts := everything
	opts.Trampolines = false
	opts.Procfs = t.TempDir() // where there is no list of symbols: none is needed
	kerneltest.AttachFentry(t, "before", kerneltest.SyscallFunction(t, "getpgid"))
	latest := run(t, newSource(opts))
	require.NoError(t, latest().degraded)
	kerneltest.AttachFentry(t, "after", kerneltest.SyscallFunction(t, "getsid"))
	checkPrograms(t, latest, loadAll(t, "after"))
	assert.Empty(t, trampolines(latest().table))
}

// trampolines returns the names of loaded code that belongs to no program, by address.
func trampolines(table *timeline.Table) map[uint64]string {
	names := map[uint64]string{}
	for _, f := range table.Loaded() {
		if f.Origin != timeline.OriginBPF {
			names[f.Start] = f.Name()
		}
	}
	return names
}
