package perfring

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

func TestOpenWithoutPrivilege(t *testing.T) {
	paranoid, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if err != nil || strings.HasPrefix(string(paranoid), "-1") {
		t.Skip("this kernel lets everybody use perf events: that it refuses them is not tested")
	}
	kerneltest.Unprivileged(t, func(t *testing.T) {
		_, err := Open(options())
		require.ErrorIs(t, err, ErrPermission)
		require.ErrorContains(t, err, "CAP_PERFMON")
		assert.ErrorContains(t, err, "kernel.perf_event_paranoid")
	})
}
