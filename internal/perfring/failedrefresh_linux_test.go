// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestBlindAfterAFailedRefresh verifies that the time before a ring was opened is blind, also if the ring of another CPU could
// not be opened then, and that CPU is gone when the CPUs are looked at again.
func TestBlindAfterAFailedRefresh(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedPerf(t)
	sysfs, existing := t.TempDir(), online(t)[0]
	dir := filepath.Join(sysfs, "devices", "system", "cpu")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	setOnline := func(list string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "online"), []byte(list+"\n"), 0o600))
	}
	setOnline("0")
	sampling := Options{Event: Sampling{Frequency: 1}, BytesPerCPU: 4 << 10}
	r, err := openWith(Options{Event: sampling.Event, BytesPerCPU: sampling.BytesPerCPU, SysFS: sysfs}, func(_ *Options, on cpu) (*ring, error) {
		if on.number == 2 {
			return nil, unix.EMFILE
		}
		g, err := openRing(&sampling, cpu{number: existing})
		if err == nil {
			g.cpu = on
		}
		return g, err
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.Empty(t, r.Poll().Blind)

	setOnline("0-2")
	require.ErrorIs(t, r.RefreshCPUs(false), unix.EMFILE)
	setOnline("0-1")
	require.NoError(t, r.RefreshCPUs(false))
	assert.NotEmpty(t, r.Poll().Blind, "CPU 1 ran before it had a ring")
}
