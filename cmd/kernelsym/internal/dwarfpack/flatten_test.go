// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const size = 64 // of the addresses in these tests

// painted returns the highest rank among the spans at each address, or -1 for none.
func painted(spans []span) (at [size]int) {
	for i := range at {
		at[i] = -1
		for _, s := range spans {
			if int(s.start) <= i && i < int(s.end) {
				at[i] = max(at[i], int(s.rank))
			}
		}
	}
	return at
}

func randomSpans(rnd *rand.Rand) []span {
	spans := make([]span, rnd.IntN(12))
	for i := range spans {
		start := rnd.Uint32N(size)
		spans[i] = span{start, start + rnd.Uint32N(size-start+1), uint32(rnd.IntN(12))}
	}
	return spans
}

// Flattening does not change the highest rank at any address.
func TestFlatten(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		spans := randomSpans(rnd)
		want := painted(spans)
		var flat []span
		flatten(spans, func(s span) { flat = coalesced(flat, s) })
		require.Equal(t, want, painted(flat), "%v", spans)
		for i, s := range flat {
			require.Less(t, s.start, s.end)
			if i > 0 {
				require.LessOrEqual(t, flat[i-1].end, s.start)
				require.False(t, flat[i-1].end == s.start && flat[i-1].rank == s.rank, "%v", flat)
			}
		}
	}
}

// Merging gives each address the contents of both sequences.
func TestMerge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		var flat [2][]span
		var want [2][size]int
		for i := range flat {
			spans := randomSpans(rnd)
			want[i] = painted(spans)
			flatten(spans, func(s span) {
				if i == 1 {
					s.rank = ^s.rank // lines are numbered from the highest rank down
				}
				flat[i] = coalesced(flat[i], s)
			})
		}
		got := [2][size]int{painted(nil), painted(nil)}
		last := uint32(0)
		err := merge(flat[0], flat[1], func(p piece) error {
			require.Less(t, p.start, p.end)
			require.LessOrEqual(t, last, p.start)
			require.False(t, p.node == noNode && p.line == -1, "a piece of nothing")
			for i := p.start; i < p.end; i++ {
				got[0][i], got[1][i] = int(p.node), p.line
			}
			last = p.end
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestSourceTree(t *testing.T) {
	for _, test := range []struct{ name, comp, headers, file, want string }{
		{"in place", "/src/linux", "./include/linux", "mm/slub.c", "mm/slub.c"},
		{"in place, absolute", "/src/linux", "/src/linux/include/linux", "/src/linux/mm/slub.c", "mm/slub.c"},
		{"built below", "/src/linux/build", "../include/linux", "../mm/slub.c", "mm/slub.c"},
		{"generated", "/src/linux/build", "../include/linux", "./include/generated/x.h", "include/generated/x.h"},
		{"built elsewhere", "/build", "/src/linux/include/linux", "/src/linux/mm/slub.c", "mm/slub.c"},
		{"built elsewhere, generated", "/build", "/src/linux/include/linux", "include/generated/x.h", "include/generated/x.h"},
		{"Debian 6.12", "debian/build/amd64", "include/linux", "fs/notify/../mount.h", "fs/mount.h"},
		{"Debian 6.12, relative", "debian/build/amd64", "include/linux", "../../../mm/slub.c", "mm/slub.c"},
		{"another compiler's file", "/src/linux", "include/linux", "/usr/lib/gcc/include/stdarg.h", "/usr/lib/gcc/include/stdarg.h"},
		{"module elsewhere", "/usr/src/headers", "include/linux", "/home/user/module/main.c", "/home/user/module/main.c"},
		{"headers of tools", "/src", "/src/linux/tools/include/linux", "/src/linux/mm/slub.c", "linux/mm/slub.c"},
		{"unknown", "", "", "mm/slub.c", "mm/slub.c"},
	} {
		var s sourceTree
		s.find(test.comp, test.headers)
		assert.Equal(t, test.want, s.strip(test.comp, join(test.comp, test.file)), test.name)
	}
	var s sourceTree
	s.find("debian/build/amd64", "include/linux")
	comp := "/build/linux/debian/build/amd64"
	assert.Equal(t, "arch/x86/lib/copy.S", s.strip(comp, "/build/linux/arch/x86/lib/copy.S"), "the assembler of Debian 6.1")
}
