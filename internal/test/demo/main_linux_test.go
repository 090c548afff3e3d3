// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestRunWithoutPrivilege verifies that the error names everything that is missing, and how to get
// it.
func TestRunWithoutPrivilege(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedRestrictedPerf(t)
	kerneltest.Unprivileged(t, func(t *testing.T) {
		err := run(t.Context(), options{})
		require.ErrorContains(t, err, "make run does, by sudo")
		require.ErrorContains(t, err, "CAP_SYSLOG")
		assert.ErrorContains(t, err, "CAP_PERFMON")
	})
}
