// SPDX-License-Identifier: Apache-2.0

package kelf_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
)

// FuzzOpen reads files with arbitrary contents. They are either rejected, or everything read from
// them is within their bounds.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"inlined.ko", "clang-arm64.ko"} {
		data, err := os.ReadFile("../dwarfpack/testdata/" + name)
		require.NoError(f, err)
		f.Add(data)
	}
	name := filepath.Join(f.TempDir(), "fuzzed.ko")
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(name, data, 0o600))
		file, err := kelf.Open(name)
		if err != nil {
			return
		}
		defer file.Close()
		extent := file.Info().Extent
		if table, err := file.SymbolTable(); err == nil {
			for i := range table.Len() {
				s := table.At(i)
				if addr, ok := file.Address(&s); ok {
					assert.True(t, extent.Contains(addr), "%#x", addr)
				}
			}
		}
		for _, section := range []string{"info", "addr", "line"} {
			s, err := file.Debug(section)
			if err != nil || s.Size() > 1<<20 {
				continue
			}
			whole := make([]byte, s.Size())
			if _, err := s.ReadAt(whole, 0); err != nil || len(whole) < 8 {
				continue
			}
			part := make([]byte, 5)
			_, err = s.ReadAt(part, 3)
			require.NoError(t, err)
			assert.Equal(t, whole[3:8], part)
		}
	})
}
