// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTree verifies a tree against a map, while images with few or many different keys are added and removed.
func TestTree(t *testing.T) {
	type place struct {
		key uint64
		end int64
	}
	r := rand.New(rand.NewPCG(3, 4))
	tr := tree{bounded: true}
	want := map[place]*Image{}
	var shared *node
	before := map[place]*Image{}
	for step := range 60_000 {
		at := place{r.Uint64N(1 << uint(2+step/4_500)), r.Int64N(1 << uint(1+step/6_000))}
		m := want[at]
		if r.IntN(2) == 0 || step > 45_000 {
			if m == nil {
				m = new(Image) // which the tree does not have
			}
			tr.remove(at.key, m)
			delete(want, at)
		} else {
			m = &Image{Start: r.Uint64(), End: r.Uint64(), Lifetime: Interval{To: at.end}}
			if want[at] == nil {
				tr.put(at.key, m)
				want[at] = m
			}
		}
		if step%5_000 == 0 {
			checkTree(t, tr.root, want)
			checkTree(t, shared, before)
			shared, before = tr.share(), maps.Clone(want)
		}
	}
	for at, m := range want {
		tr.remove(at.key, m)
	}
	assert.Nil(t, tr.root)
	checkTree(t, shared, before)
}

func checkTree[K comparable](t *testing.T, root *node, want map[K]*Image) {
	t.Helper()
	got := map[*Image]bool{}
	lastKey, lastEnd := uint64(0), int64(math.MinInt64)
	root.each(0, noKey, func(key uint64, m *Image) bool {
		require.True(t, key > lastKey || key == lastKey && m.Lifetime.To > lastEnd)
		lastKey, lastEnd = key, m.Lifetime.To
		got[m] = true
		return true
	})
	require.Len(t, got, len(want))
	for _, m := range want {
		require.True(t, got[m])
	}
	if root != nil {
		checkNode(t, root)
	}
}

// checkNode verifies the keys and the bounds of a node, and returns the bounds.
func checkNode(t *testing.T, n *node) bounds {
	t.Helper()
	want := bounds{start: math.MaxUint64, last: math.MinInt64}
	for i := range n.len {
		is := n.boundsOf(i)
		if n.children != nil {
			is = checkNode(t, n.children[i])
			require.Equal(t, entry{n.keys[i], n.ends[i], nil, n.children[i]}, entryOf(n.children[i]))
		} else {
			require.Equal(t, n.images[i].Lifetime.To, n.ends[i])
		}
		want.start, want.end, want.last = min(want.start, is.start), max(want.end, is.end), max(want.last, is.last)
	}
	require.Equal(t, want, n.bounds)
	for _, key := range n.keys[n.len:] {
		require.Equal(t, uint64(noKey), key)
	}
	return n.bounds
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
