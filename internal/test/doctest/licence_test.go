// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLicenceHeaders verifies that each Go file states its licence, unless it is generated.
func TestLicenceHeaders(t *testing.T) {
	needRepository(t)
	found := 0
	require.NoError(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "build" || entry.Name() == ".git"):
			return fs.SkipDir
		case filepath.Ext(file) != ".go":
			return nil
		}
		text, err := os.ReadFile(file)
		if !strings.HasPrefix(string(text), "// Code generated ") {
			found++
			assert.True(t, strings.HasPrefix(string(text), "// SPDX-License-Identifier: Apache-2.0\n\n"), file)
		}
		return err
	}))
	assert.NotZero(t, found)
}
