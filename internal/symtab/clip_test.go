package symtab

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClipped clips random modules at random places, and holds what is left
// against the module that is built with that end.
func TestClipped(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		var lines []line
		addr := uint64(text)
		for range r.IntN(40) {
			addr += 1 + r.Uint64N([]uint64{4, 100, 1 << 17}[r.IntN(3)])
			lines = append(lines, line{addr, 'T', string(rune('a' + r.IntN(26)))})
		}
		size := addr - text + 1 + r.Uint64N(1<<18)
		whole := build(t, kernelInfo(size), lines...)
		for range 10 {
			end := text + 1 + r.Uint64N(size+10)
			want := build(t, kernelInfo(min(size, end-text)), below(lines, end)...)
			got := whole.Clipped(end)
			require.Equal(t, want.End, got.End)
			require.Equal(t, want.Len(), got.Len())
			for i := range want.Len() {
				w, g := want.Symbol(i), got.Symbol(i)
				require.Equal(t, []uint64{w.Start, w.End}, []uint64{g.Start, g.End}, "seed %d, symbol %d", seed, i)
				require.Equal(t, w.Name(), g.Name())
			}
			table := NewTable([]*Module{got})
			for range 50 {
				at := text + r.Uint64N(size+10)
				w, wok := NewTable([]*Module{want}).Lookup(at, Always)
				g, gok := table.Lookup(at, Always)
				require.Equal(t, wok, gok)
				if wok {
					require.Equal(t, w.Start, g.Start)
				}
			}
		}
		assert.Same(t, whole, whole.Clipped(whole.End))
	}
}

func below(lines []line, end uint64) []line {
	n := 0
	for n < len(lines) && lines[n].addr < end {
		n++
	}
	return lines[:n]
}
