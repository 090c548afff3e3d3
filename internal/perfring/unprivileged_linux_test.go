// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestOpenWithoutPrivilege(t *testing.T) {
	kerneltest.NeedRestrictedPerf(t)
	kerneltest.Unprivileged(t, func(t *testing.T) {
		for _, opts := range []Options{options(), SymbolOptions("/sys")} {
			_, err := Open(opts)
			require.ErrorIs(t, err, ErrPermission)
			require.ErrorContains(t, err, "CAP_PERFMON")
			assert.ErrorContains(t, err, "kernel.perf_event_paranoid")
		}
	})
}
