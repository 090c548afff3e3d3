// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// TestPackIsRefusedBeforeItsNamesTakeMemory verifies that a small pack cannot take far more memory
// on a gateway than debug_info::max_bytes, even for a moment.
func TestPackIsRefusedBeforeItsNamesTakeMemory(t *testing.T) {
	const n, limit = 100_000, 4 << 20
	w := pack.NewWriter(pack.Info{BuildID: first, Name: "vmlinux", Arch: "amd64", Extent: pack.Range{End: n}})
	name := strings.Repeat("n", 511)
	for i := range uint32(n) {
		w.Symbol(pack.Symbol{Range: pack.Range{Start: i, End: i + 1}, Name: name})
	}
	data, err := w.Bytes()
	require.NoError(t, err)
	require.Less(t, len(data), limit)

	s := New(Options{MaxBytes: limit, Gateway: true})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys
	}
	before := heap()
	err = s.load(bytes.NewReader(data), int64(len(data)), nil, first)
	require.ErrorContains(t, err, "larger than debug_info::max_bytes")
	assert.Equal(t, TooLarge, ReasonOf(err))
	assert.Less(t, heap()-before, uint64(16<<20))

	plain, err := pack.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	assert.Equal(t, int64(511+(n-1)*(511-127)), namesIn(plain))
}
