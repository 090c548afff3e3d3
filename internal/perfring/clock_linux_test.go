// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"os"
	"os/exec"
	"testing"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestIsSetApart(t *testing.T) {
	for offsets, want := range map[string]bool{
		"": false,
		"monotonic           0         0\nboottime            0         0\n":    false,
		"monotonic           0         0\nboottime        86400         0\n":    true,
		"monotonic           0         1\nboottime            0         0\n":    true,
		"monotonic          -1 999999999\nboottime           -1 999999999\n":    true,
		"monotonic 0 0\nboottime 0 0\nanother clock that is written in 5 words": true,
	} {
		assert.Equal(t, want, isSetApart(offsets), "%q", offsets)
	}
}

const timeNamespaceEnv = "KERNELSYM_TEST_TIME_NAMESPACE"

// TestTimeNamespace opens rings in a time namespace.
func TestTimeNamespace(t *testing.T) {
	if os.Getenv(timeNamespaceEnv) != "" {
		_, err := Open(SymbolOptions("/sys"))
		require.ErrorIs(t, err, ErrClocks)
		return
	}
	if !kerneltest.Has(t, capability.CAP_SYS_ADMIN) {
		t.Skip("no CAP_SYS_ADMIN: time namespaces are not tested")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skipf("%v: time namespaces are not tested", err)
	}
	if _, err := os.Stat("/proc/self/ns/time"); err != nil {
		t.Skipf("no time namespaces (%v): they are not tested", err)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "unshare", "--time", "--fork", "--boottime", "1000",
		self, "-test.run", "^TestTimeNamespace$")
	cmd.Env = append(os.Environ(), timeNamespaceEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
