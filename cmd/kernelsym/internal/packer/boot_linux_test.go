// SPDX-License-Identifier: Apache-2.0

package packer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestBootPack compares the pack that the boot image of a running kernel gives with the one that the
// kernel's own list gives. Any user can make the former.
func TestBootPack(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedAddresses(t)
	image, err := packer.RunningImage("/", "/proc", "/sys")
	require.NoError(t, err)
	booted, running := t.TempDir(), t.TempDir()
	result, err := packer.Boot(t.Context(), []packer.BootImage{image}, nil, packer.Options{Dir: booted})
	require.NoError(t, err)
	assert.Equal(t, 1, result.Packs)
	_, err = packer.Running(t.Context(), "/proc", "/sys", packer.Options{Dir: running})
	require.NoError(t, err)

	name := image.BuildID + pack.Ext
	got, err := os.ReadFile(filepath.Join(booted, name))
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join(running, name))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "the packs of %s differ", image.Name)
	symbols := read(t, booted, image.BuildID).NumSymbols()
	assert.Greater(t, symbols, 10_000)
	kerneltest.Figure("boot_pack_equal %t: %d bytes, %d symbols", bytes.Equal(want, got), len(got), symbols)
}
