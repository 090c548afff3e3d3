// SPDX-License-Identifier: Apache-2.0

package kernelload

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEachKind verifies that each kind of load goes on until it is told to stop, and leaves nothing
// open.
func TestEachKind(t *testing.T) {
	for name, load := range map[string]func(context.Context) error{
		"files": readFiles, "pipe": usePipe, "socket": useSocket,
	} {
		t.Run(name, func(t *testing.T) {
			warmUp, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_ = load(warmUp) // the runtime's poller opens its descriptors once
			before := descriptors(t)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_ = load(ctx) // a load that is cut off may fail
			require.Error(t, ctx.Err(), "it ended early")
			assert.Equal(t, before, descriptors(t))
		})
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.NoError(t, Run(ctx, 2))
	assert.Error(t, ctx.Err(), "it ended early")
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc/self/fd: leaks of file descriptors are not tested")
	}
	return len(entries)
}
