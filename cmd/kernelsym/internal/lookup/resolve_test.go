// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/running"
	"github.com/kernelsym/kernelsym/internal/packimage"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestReplaced verifies that an address gets no name if other code had it since following began, because
// the text may refer to that code.
func TestReplaced(t *testing.T) {
	const start = 0xffffffffc0200000
	h := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: 100})
	h.AddBlind(timeline.Interval{From: timeline.Always.From, To: 10})
	first := timeline.NewFunction(timeline.OriginBPF, "bpf_prog_1", start, 0x40, 20)
	h.Load(first)
	h.Load(timeline.NewFunction(timeline.OriginBPF, "bpf_prog_alone", start+0x40, 0x40, 3e9))
	h.Unload(first, 1e9)
	h.Load(timeline.NewFunction(timeline.OriginBPF, "bpf_prog_2", start, 0x40, 2e9))
	h.SetCertain(9e9)
	s := timeline.NewSnapshot(h.Table())
	nameAt := func(since int64, addr uint64) string {
		var k running.Kernel
		k.Follow(func() *timeline.Snapshot { return s }, since)
		a, err := (&Resolver{Kernel: &k}).At(t.Context(), addr)
		require.NoError(t, err)
		return a.Function + a.Reason
	}
	assert.Equal(t, "ambiguous", nameAt(100, start))
	assert.Equal(t, "ambiguous", nameAt(0, start))
	assert.Equal(t, "bpf_prog_2", nameAt(2e9+100, start))
	assert.Equal(t, "bpf_prog_alone", nameAt(100, start+0x40))
	h.AddBlind(timeline.Interval{From: 2.5e9, To: 2.6e9})
	s = timeline.NewSnapshot(h.Table())
	assert.Equal(t, "ambiguous", nameAt(100, start+0x40), "it may have had other code in blind time")
}

// TestContract_10_5_Located verifies that addresses of a kernel that was located are in no answer but as the question has
// them.
func TestContract_10_5_Located(t *testing.T) {
	const id, start = "0123456789abcdef", 0xffffffff9f200000
	dir := t.TempDir()
	writePack(t, dir, id, "vmlinux", "main_loop")
	packs, err := packview.Open([]string{dir})
	require.NoError(t, err)
	of, err := packs.Pack(t.Context(), id)
	require.NoError(t, err)
	core, err := packimage.Located(of, start)
	require.NoError(t, err)
	r := Resolver{Kernel: &running.Kernel{Packs: packs}, Packs: packs}
	r.Kernel.Follow(func() *timeline.Snapshot { return timeline.NewSnapshot(timeline.NewTable(core)) }, 0)
	whole := "vmlinux+0x10-vmlinux+0x50 main_loop [vmlinux] " + id + "\n"
	for _, tt := range []struct{ query, want string }{
		{"ffffffff9f200014", "ffffffff9f200014 main_loop+0x4 [vmlinux] " + id + "\n"},
		{"ffffffff9f200060", "ffffffff9f200060 ? [vmlinux] " + id + "\n"},
		{"ffffffff9f210000", "ffffffff9f210000 ? (unresolved)\n"},
		{"ffffffff00000000-ffffffffffffffff", whole},
		{"main_loop", whole},
		{"main_*", whole},
		{"main_loop+0x4/0x40", "vmlinux+0x14 main_loop+0x4 [vmlinux] " + id + "\n"},
		{"vmlinux+0x14", "vmlinux+0x14 main_loop+0x4 [vmlinux] " + id + "\n"},
	} {
		var out strings.Builder
		require.NoError(t, r.Run(t.Context(), []string{tt.query}, nil, func(answers []*Answer, err error) error {
			for _, a := range answers {
				a.Print(printable.New(&out, false))
			}
			return err
		}))
		assert.Equal(t, tt.want, out.String(), tt.query)
	}
}
