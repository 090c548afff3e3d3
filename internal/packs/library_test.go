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

// TestPackIsRefusedBeforeItsImageTakesMemory verifies that a small pack cannot take far more memory
// on a gateway than debug_info::max_bytes, even for a moment.
func TestPackIsRefusedBeforeItsImageTakesMemory(t *testing.T) {
	const limit = 4 << 20
	for _, tt := range []struct {
		name    string
		symbols uint32
		symbol  string // the name of all of them
	}{
		{"long names", 100_000, strings.Repeat("n", 511)},
		{"many symbols", 1_000_000, "n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := pack.NewWriter(pack.Info{BuildID: first, Name: "vmlinux", Arch: "amd64", Extent: pack.Range{End: tt.symbols}})
			for i := range tt.symbols {
				w.Symbol(pack.Symbol{Range: pack.Range{Start: i, End: i + 1}, Name: tt.symbol})
			}
			data, err := w.Bytes()
			require.NoError(t, err)
			require.Less(t, len(data), limit)

			s := New(Options{MaxBytes: limit, Gateway: true})
			allocated := func() uint64 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.TotalAlloc
			}
			before := allocated()
			err = s.load(bytes.NewReader(data), int64(len(data)), nil, first)
			took := allocated() - before
			require.ErrorContains(t, err, "larger than debug_info::max_bytes")
			assert.Equal(t, TooLarge, ReasonOf(err))
			assert.Less(t, took, uint64(2*limit))
		})
	}
}
