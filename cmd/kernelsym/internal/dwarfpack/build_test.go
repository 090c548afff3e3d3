// SPDX-License-Identifier: Apache-2.0

package dwarfpack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/dwarfpack"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// packOf makes a pack of a file's debug information.
func packOf(t *testing.T, name string) []byte {
	t.Helper()
	f, err := kelf.Open(name)
	require.NoError(t, err)
	defer f.Close()
	w := pack.NewWriter(f.Info())
	_, err = dwarfpack.Build(f, w, nil)
	require.NoError(t, err)
	data, err := w.Bytes()
	require.NoError(t, err)
	return data
}
