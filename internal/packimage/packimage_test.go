// SPDX-License-Identifier: Apache-2.0

package packimage_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packimage"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const coreID, moduleID = "00112233445566778899aabbccddeeff00112233", "0123456789abcdef"

func coreInfo() pack.Info {
	return pack.Info{
		BuildID: coreID, Name: pack.KernelName, Arch: "amd64",
		Extent: pack.Range{End: 0x5000}, Gap: pack.Range{Start: 0x3000, End: 0x4000},
		Marks: pack.Marks{Entry: pack.Range{Start: 0x1000, End: 0x1100}, Thunks: []pack.Range{{Start: 0x2000, End: 0x2020}}},
	}
}

func read(t *testing.T, info pack.Info, symbols ...pack.Symbol) *pack.Pack {
	t.Helper()
	w := pack.NewWriter(info)
	for _, s := range symbols {
		w.Symbol(s)
	}
	data, err := w.Bytes()
	require.NoError(t, err)
	p, err := pack.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return p
}

func symbol(start, end uint32, name string) pack.Symbol {
	return pack.Symbol{Range: pack.Range{Start: start, End: end}, Name: name}
}

func TestCore(t *testing.T) {
	folded := symbol(0x1000, 0x1100, "asm_entry")
	folded.Folded = true
	p := read(t, coreInfo(), symbol(0x10, 0x40, "_RNvCs1_1a1b"), folded, symbol(0x4000, 0x5000, "init"))
	m, err := packimage.New(p, 7)
	require.NoError(t, err)
	at := func(offset uint64) uint64 { return 1<<63 + 7<<32 + offset }
	assert.Equal(t, []uint64{at(0), at(0), at(0x5000)}, []uint64{m.Base(), m.Start, m.End})
	assert.Equal(t, timeline.Always, m.Lifetime)
	assert.Equal(t, buildid.FileID(coreID), m.Text.FileID)
	for offset, want := range map[uint64]string{
		0: "", 0xf: "", 0x10: "a::b", 0x3f: "a::b", 0x40: "", 0x1000: "asm_entry", 0x10ff: "asm_entry", 0x1100: "",
		0x3fff: "", 0x4000: "init", 0x4fff: "init",
	} {
		got := ""
		if s := m.Lookup(at(offset)); s.Exists() {
			got = m.SymbolName(s).Name
		}
		assert.Equal(t, want, got, "%#x", offset)
	}
	assert.True(t, m.SymbolName(m.Lookup(at(0x1000))).Folded)
	assert.False(t, m.SymbolName(m.Lookup(at(0x10))).Folded)
	assert.False(t, m.Contains(at(0x3000)))
	assert.Equal(t, &symtab.Landmarks{
		Arch: "amd64", Entry: symtab.Range{Start: at(0x1000), End: at(0x1100)}, Fred: symtab.Range{Start: at(0), End: at(0)},
		Thunks: []symtab.Range{{Start: at(0x2000), End: at(0x2020)}}, SharedTrampolines: true, // or not: a pack does not say
	}, m.Text.Landmarks)
}

// TestSnapshot has two kernels and a module.
func TestSnapshot(t *testing.T) {
	other := coreInfo()
	other.BuildID = "ffffffffffffffffffff"
	module := pack.Info{BuildID: moduleID, Name: "nf_tables", Arch: "amd64", Base: 0x40, Extent: pack.Range{End: 0x2000}}
	var images []*timeline.Image
	for slot, p := range []*pack.Pack{
		read(t, coreInfo(), symbol(0, 0x100, "first")), read(t, other, symbol(0, 0x100, "second")),
		read(t, module, symbol(0x10, 0x2000, "below_and_above")),
	} {
		m, err := packimage.New(p, packimage.MaxSlot-uint32(slot))
		require.NoError(t, err)
		images = append(images, m)
	}
	s := timeline.NewPackSnapshot(images...)
	assert.Nil(t, s.Core(), "it is of no machine")
	for _, m := range images {
		got, ok := s.ByFileID(m.Text.FileID)
		assert.True(t, ok && got == m)
		got, ok = s.ByBuildID(m.BuildID())
		assert.True(t, ok && got == m)
		hit, _ := s.At(m.Start, timeline.Present)
		assert.Equal(t, timeline.Hit{Reason: timeline.ReasonUnresolved}, hit)
	}
	assert.Equal(t, images[2].Start+0x40, images[2].Base())
}

// TestRefused has well-formed packs whose symbols cannot form an image.
func TestRefused(t *testing.T) {
	changed := func(change func(*pack.Info)) pack.Info {
		info := coreInfo()
		change(&info)
		return info
	}
	for name, p := range map[string]*pack.Pack{
		"no code":             read(t, changed(func(i *pack.Info) { i.Extent, i.Gap = pack.Range{}, pack.Range{} })),
		"base outside":        read(t, changed(func(i *pack.Info) { i.Base = 0x5000 })),
		"gap outside":         read(t, changed(func(i *pack.Info) { i.Gap.End = 0x5001 })),
		"symbol in the gap":   read(t, coreInfo(), symbol(0x3ff0, 0x4010, "a")),
		"symbol behind":       read(t, coreInfo(), symbol(0x4ff0, 0x5001, "a")),
		"symbol before":       read(t, changed(func(i *pack.Info) { i.Extent.Start, i.Base = 0x100, 0x100 }), symbol(0xff, 0x200, "a")),
		"a name of 512 bytes": read(t, coreInfo(), symbol(0, 8, string(bytes.Repeat([]byte("a"), symtab.MaxNameLen+1)))),
	} {
		_, err := packimage.New(p, 0)
		assert.ErrorContains(t, err, coreID, name)
	}
}

func TestLocated(t *testing.T) {
	const start = 0xffffffff9a200000
	p := read(t, coreInfo(), symbol(0x10, 0x40, "f"))
	m, err := packimage.Located(p, start)
	require.NoError(t, err)
	assert.Equal(t, []uint64{start, start, start + 0x5000}, []uint64{m.Base(), m.Start, m.End})
	assert.Equal(t, "f", m.SymbolName(m.Lookup(start+0x10)).Name)
	assert.True(t, m.IsLocated)
	assert.True(t, timeline.NewSnapshot(timeline.NewTable(m)).IsLocated())
	other, err := packimage.New(p, 7)
	require.NoError(t, err)
	assert.False(t, timeline.NewSnapshot(timeline.NewTable(other)).IsLocated())
	assert.False(t, (*timeline.Snapshot)(nil).IsLocated())
}

// TestLocatedErrorsDoNotTellThePlace verifies that the error for a pack that is no kernel in memory does not contain the place.
func TestLocatedErrorsDoNotTellThePlace(t *testing.T) {
	const start = 0xffffffff9a200000
	module, wrong := coreInfo(), coreInfo()
	module.Name, wrong.Base = "dummy", 0x100000
	for name, at := range map[*pack.Info]uint64{&module: start, &wrong: start, ptr(coreInfo()): 1<<64 - 0x1000} {
		_, err := packimage.Located(read(t, *name, symbol(0x10, 0x40, "f")), at)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "ffff")
	}
}

func ptr[T any](v T) *T { return &v }
