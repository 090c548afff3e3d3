// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
)

// TestSortedListIsTheKernelsOwn compares the two ways of obtaining the list of a real kernel.
func TestSortedListIsTheKernelsOwn(t *testing.T) {
	roots := filepath.SplitList(os.Getenv("KERNELSYM_DEBUG_ROOT"))
	if len(roots) == 0 {
		t.Skip("no kernel with debug information: `make test-packs` gets some, and sets KERNELSYM_DEBUG_ROOT")
	}
	for _, root := range roots {
		names, err := filepath.Glob(filepath.Join(root, "usr/lib/debug/boot/vmlinux-*"))
		require.NoError(t, err)
		require.Len(t, names, 1)
		name := names[0]
		f, err := Open(name)
		require.NoError(t, err)
		info, own, err := f.Symbols()
		require.NoError(t, err)
		table, err := f.SymbolTable()
		require.NoError(t, err)
		list, err := sortedList(f.elf, table)
		require.NoError(t, err)
		m, err := kallsyms.ParseCore(bytes.NewReader(list), info.Arch, info.BuildID, "")
		require.NoError(t, err)
		sortedInfo := info
		sorted := Describe(m, f.areas[0].start, &sortedInfo)
		require.NoError(t, f.Close())
		assert.Equal(t, info, sortedInfo)
		different := 0
		for i := range min(len(own), len(sorted)) {
			if own[i] != sorted[i] {
				different++
			}
		}
		assert.Zero(t, different)
		assert.Len(t, sorted, len(own))
		assert.Greater(t, len(own), 10000)
	}
}
