// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var tr tree
	tr.share()
	want := map[uint64]*Image{}
	for step := range 60_000 {
		start := r.Uint64N(1 << uint(4+step/4_500))
		if r.IntN(2) == 0 || step > 45_000 {
			tr.remove(start)
			delete(want, start)
		} else {
			m := &Image{Start: start, End: start + 1}
			tr.put(segment{start: start, end: start + 1, loaded: m})
			want[start] = m
		}
		if step%5_000 == 0 {
			checkTree(t, &tr, want)
			tr.share()
		}
	}
	for start := range want {
		tr.remove(start)
		delete(want, start)
	}
	checkTree(t, &tr, want)
	assert.Nil(t, tr.root)
}

func checkTree(t *testing.T, tr *tree, want map[uint64]*Image) {
	t.Helper()
	got := map[uint64]*Image{}
	last := int64(-1)
	tr.root.each(0, math.MaxUint64, func(s *segment) bool {
		require.Greater(t, int64(s.start), last)
		last = int64(s.start)
		got[s.start] = s.loaded
		require.Same(t, s, tr.root.floor(s.start))
		return true
	})
	require.Len(t, got, len(want))
	for start, m := range want {
		require.Same(t, m, got[start])
	}
}

func TestTreeAtTheLastAddress(t *testing.T) {
	h := newHistory(remember, 10)
	h.Load(bpf("last", math.MaxUint64-0x10, 0x10, 0))
	assert.Equal(t, "last", h.At(math.MaxUint64-1).Name())
	assert.Equal(t, "last", ask(h, math.MaxUint64-1, Present))
	assert.Equal(t, "unresolved", ask(h, math.MaxUint64, Present))
	assert.Nil(t, h.At(math.MaxUint64))
	h.Load(bpf("none", math.MaxUint64, 1, 0)) // its end is not an address
	h.Load(bpf("empty", 0x1000, 0, 0))
	assert.Nil(t, h.At(math.MaxUint64))
	assert.Len(t, h.Loaded(), 1)
}
