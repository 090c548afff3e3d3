// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// TestFunctionsOfABuild verifies that a query with a build opens the pack of that build alone: a damaged pack of another
// build does not matter to it.
func TestFunctionsOfABuild(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	writePack(t, dir, moduleID, modulePack())
	require.NoError(t, os.WriteFile(filepath.Join(dir, otherKernelID+pack.Ext), []byte("damaged"), 0o600))
	p, err := openPacks([]string{dir})
	require.NoError(t, err)
	for _, tt := range []struct {
		query query
		want  int
	}{
		{query{name: "main_loop", build: kernelID}, 1},
		{query{name: "main_loop", build: kernelID, module: "vmlinux"}, 1},
		{query{name: "main_*", build: kernelID}, 0},
		{query{name: "main_loop", build: kernelID, module: "nf_tables"}, 0},
		{query{name: "main_loop", build: moduleID}, 0},
		{query{name: "nft_do", build: moduleID, module: "nf_tables"}, 1},
		{query{name: "main_loop", build: "0123456789abcdef0123456789abcdef01234568"}, 0},
	} {
		found, err := p.functions(&tt.query)
		require.NoError(t, err, tt.query)
		assert.Len(t, found, tt.want, tt.query)
	}
	_, err = p.functions(&query{name: "main_loop"})
	require.ErrorIs(t, err, pack.ErrFormat)
	_, err = p.functions(&query{name: "main_loop", build: otherKernelID})
	require.ErrorIs(t, err, pack.ErrFormat)
}
