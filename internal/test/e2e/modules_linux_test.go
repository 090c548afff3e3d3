// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// openCipher opens a socket to a cipher of the kernel, with a key of zeros.
func openCipher(algorithm string, keyLen int) (fd int, err error) {
	listener, err := unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(listener) }()
	if err := unix.Bind(listener, &unix.SockaddrALG{Type: "skcipher", Name: algorithm}); err != nil {
		return -1, fmt.Errorf("%s: %w", algorithm, err)
	}
	if err := unix.SetsockoptString(listener, unix.SOL_ALG, unix.ALG_SET_KEY, string(make([]byte, keyLen))); err != nil {
		return -1, fmt.Errorf("key: %w", err)
	}
	accepted, _, errno := unix.Syscall6(unix.SYS_ACCEPT4, uintptr(listener), 0, 0, 0, 0, 0)
	if errno != 0 {
		return -1, fmt.Errorf("accept: %w", errno)
	}
	return int(accepted), nil
}

// encrypt has the kernel encrypt zeros for as long as goOn returns true. It closes fd.
func encrypt(fd int, goOn func() bool) error {
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, 1<<14)
	for goOn() {
		if err := unix.Sendto(fd, buf, 0, nil); err != nil {
			return fmt.Errorf("plain text: %w", err)
		}
		if _, err := unix.Read(fd, buf); err != nil {
			return fmt.Errorf("cipher text: %w", err)
		}
	}
	return nil
}

// keepEncrypting has the kernel encrypt zeros until the test ends.
func keepEncrypting(t *testing.T, cipher string) {
	t.Helper()
	fd, err := openCipher(cipher, 16)
	require.NoError(t, err)
	var stop atomic.Bool
	ended := make(chan error, 1)
	go func() { ended <- encrypt(fd, func() bool { return !stop.Load() }) }()
	t.Cleanup(func() {
		stop.Store(true)
		require.NoError(t, <-ended)
	})
}

// TestSampledModuleCode verifies that the functions of a busy cipher module are in the collector's
// output, and agree with the module's file. It uses AES because kernels offer it to user space even
// if they reserve most other ciphers for themselves, as Linux 7 does.
func TestSampledModuleCode(t *testing.T) {
	kerneltest.NeedModules(t)
	kerneltest.Built(t, kerneltest.Collector)
	name := "aesni_intel"
	if runtime.GOARCH == "arm64" {
		name = "aes_ce_blk"
	}
	require.NoError(t, kerneltest.LoadModule("algif_skcipher"))
	file := filepath.Join(t.TempDir(), "profiles.json")
	c := startCollector(t, `
receivers: {kernelstack: {frequency: `+hertz()+`, interval: 500ms}}
processors: {kernelsym: }
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [file]}}}
`)
	// Load it only now, while the collector follows.
	require.NoError(t, kerneltest.LoadModule(name))
	keepEncrypting(t, "cbc(aes)")

	frames, seen := make(map[string]frame), 0 // of the module, by function
	c.eventually("functions of the module", func() error {
		all := c.exported(file)
		for _, pd := range all[seen:] {
			for _, s := range rewritetest.Samples(pd) {
				for _, f := range s.Stack {
					if f.Mapping != nil && f.Mapping.File == name && len(f.Lines) > 0 {
						frames[f.Lines[0].System] = f
					}
				}
			}
		}
		if seen = len(all); len(frames) == 0 {
			return errors.New("none yet")
		}
		return nil
	})

	module := kerneltest.ReadModuleCode(t, name)
	for function, f := range frames {
		assert.Equal(t, module.BuildID, f.Mapping.BuildID)
		assert.Equal(t, fileID(module.BuildID), f.Mapping.FileID)
		assert.Zero(t, f.Mapping.Start)
		assert.Zero(t, f.Mapping.Limit)
		// A return address can be the first byte after the function.
		assert.True(t, module.Has(function, f.Address) || module.Has(function, f.Address-1),
			"%s is not at %#x of .text", function, f.Address)
	}
	t.Logf("%d functions of %s were sampled", len(frames), name)
}
