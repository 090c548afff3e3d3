// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// BenchmarkList measures listing a thousand programs, and the system calls alone.
func BenchmarkList(b *testing.B) {
	kerneltest.NeedBPF(b)
	for i := range 1000 {
		kerneltest.LoadBPF(b, kerneltest.SmallProgram("list", int32(i), 0))
	}
	b.Run("source", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			t := &tape{certain: now}
			s := NewSourceFrom(Options{SourceLines: true}, nil, new(bpf.Reader))
			s.start(t, nil)
			s.list(b.Context())
			require.True(b, s.state.follower.ledger.Loss().IsEmpty())
		}
	})
	var reader bpf.Reader
	b.Run("system calls", func(b *testing.B) {
		for range b.N {
			_, err := reader.Floor(bpf.WantFunctions | bpf.WantLines)
			require.NoError(b, err)
		}
	})
}
