// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/regularfile"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestPackRefusesPipes verifies that pack does not wait for the writer of a named pipe.
func TestPackRefusesPipes(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for _, args := range [][]string{
		{"pack", pipe, "-d", t.TempDir()}, {"pack", "--boot", pipe, "-d", t.TempDir()}, {"pack", "--info", pipe},
	} {
		_, _, err := execute(t, "", args...)
		require.ErrorIs(t, err, regularfile.ErrOther, args)
		require.ErrorContains(t, err, pipe)
	}
}
