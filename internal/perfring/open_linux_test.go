// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestOpenErrors(t *testing.T) {
	kerneltest.NeedPerf(t)
	files := kerneltest.OpenFiles(t)
	opts := options()
	opts.Event = Sampling{Frequency: 1 << 40}
	_, err := Open(opts)
	require.ErrorIs(t, err, ErrRate)

	// Allow fewer and fewer files, until there are too few for all rings.
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	err = nil
	for room := uint64(files) + 8; err == nil; room-- {
		low := limit
		low.Cur = room
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
		var r *Reader
		r, err = Open(options())
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		if err == nil {
			require.NoError(t, r.Close())
		}
	}
	require.ErrorIs(t, err, ErrFiles)
	assert.Equal(t, files, kerneltest.OpenFiles(t))
}

// TestRefusedEvents: the error for an event that the kernel refuses depends on the event.
func TestRefusedEvents(t *testing.T) {
	err := openError(Sampling{}, 3, unix.EINVAL)
	require.ErrorIs(t, err, ErrRate)
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "CPU 3")
	err = openError(Symbols{}, 3, unix.EINVAL)
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "Linux 5.1")
	assert.NotContains(t, err.Error(), "frequency")
	assert.ErrorIs(t, openError(Symbols{}, 3, unix.EACCES), ErrPermission)
}

// TestWithoutSysfs: the CPUs are found all the same.
func TestWithoutSysfs(t *testing.T) {
	kerneltest.NeedPerf(t)
	online, err := OnlineCPUs("/sys")
	require.NoError(t, err)
	opts := quiet()
	opts.SysFS = t.TempDir()
	r := open(t, opts)
	for range 2 {
		var cpus []int
		for _, ring := range r.state.main.rings {
			cpus = append(cpus, ring.cpu.number)
		}
		assert.Equal(t, online, cpus)
		require.NoError(t, r.RefreshCPUs(false))
		assert.Empty(t, r.Poll().Blind)
	}
	require.NoError(t, r.RefreshCPUs(true))
	assert.Len(t, r.Poll().Blind, 1, "which CPU came or went is not known")
}

// TestWantedCPUs: nothing is recorded on other CPUs, with and without sysfs.
func TestWantedCPUs(t *testing.T) {
	first, second := twoCPUs(t)
	for name, sysfs := range map[string]string{"sysfs": "/sys", "no sysfs": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			opts := options()
			opts.SysFS, opts.CPUs = sysfs, []int{second}
			r := open(t, opts)
			kerneltest.Busy(t)
			require.NoError(t, r.RefreshCPUs(false))
			assert.Equal(t, []int{second}, r.CPUs())
			for _, rec := range readUntil(t, r, isSample) {
				assert.NotEqual(t, uint32(first), rec.CPU)
			}
			opts.Event = Sampling{Frequency: 1 << 40}
			_, err := Open(opts)
			require.ErrorIs(t, err, ErrRate)
		})
	}
}
