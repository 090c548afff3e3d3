// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestLockdown verifies that doctor reports the mode of a locked-down kernel, and finds that
// everything works. The tests that `make test-lockdown` runs in the same machine show that it does.
func TestLockdown(t *testing.T) {
	mode := kerneltest.NeedLockdown(t)
	kerneltest.NeedBPF(t)
	kerneltest.LoadBPF(t, kerneltest.HotProgram(t))
	if kerneltest.InVM() {
		require.NoError(t, kerneltest.LoadModule("xfs"))
		t.Cleanup(func() { _ = kerneltest.UnloadModule("xfs") })
	}
	r := runUndisturbed(t)
	assert.Equal(t, mode+": it forbids nothing that kernelsym does", finding(t, r, "lockdown").Found)
	assert.Zero(t, r.Code())
	for _, f := range r.Findings {
		t.Logf("%s: %s: %s", f.Level, f.Check, f.Found)
		assert.Contains(t, []Level{OK, Note}, f.Level, f)
	}
}
