// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// TestFunctionsOfABuild verifies that a query with a build opens the pack of that build alone: a damaged pack of another
// build does not matter to it.
func TestFunctionsOfABuild(t *testing.T) {
	const kernelID, moduleID, damagedID = "0123456789abcdef", "0123456789abcdef0123456789abcdef01234567", "ffffffffffffffff"
	dir := t.TempDir()
	writePack(t, dir, kernelID, "vmlinux", "main_loop")
	writePack(t, dir, moduleID, "nf_tables", "nft_do")
	require.NoError(t, os.WriteFile(filepath.Join(dir, damagedID+pack.Ext), []byte("damaged"), 0o600))
	packs, err := packview.Open([]string{dir})
	require.NoError(t, err)
	r := Resolver{Packs: packs}
	for _, tt := range []struct {
		query query
		want  int
	}{
		{query{name: "main_loop", build: kernelID}, 1},
		{query{name: "main_loop", build: kernelID, module: "vmlinux"}, 1},
		{query{name: "main_loop", build: kernelID, module: "nf_tables"}, 0},
		{query{name: "main_loop", build: moduleID}, 0},
		{query{name: "nft_do", build: moduleID, module: "nf_tables"}, 1},
		{query{name: "main_loop", build: "0123456789abcdef0123456789abcdef01234568"}, 0},
	} {
		found, err := r.functions(t.Context(), &tt.query)
		require.NoError(t, err, tt.query)
		assert.Len(t, found, tt.want, tt.query)
	}
	_, err = r.functions(t.Context(), &query{name: "main_loop"})
	require.ErrorIs(t, err, pack.ErrFormat)
	_, err = r.functions(t.Context(), &query{name: "main_loop", build: damagedID})
	require.ErrorIs(t, err, pack.ErrFormat)
}

// writePack writes the pack of an image with one function.
func writePack(t *testing.T, dir, id, image, function string) {
	t.Helper()
	w := pack.NewWriter(pack.Info{BuildID: id, Name: image, Extent: pack.Range{End: 0x100}})
	w.Symbol(pack.Symbol{Range: pack.Range{Start: 0x10, End: 0x50}, Name: function})
	data, err := w.Bytes()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, id+pack.Ext), data, 0o600))
}
