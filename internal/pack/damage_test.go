// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// The offset of the checksum in the header (docs/dev/pack-format.md), and the offset from which on
// it covers the file.
const (
	checksumAt = 12
	checkedAt  = 16
)

// seal gives a pack the right checksum.
func seal(data []byte) {
	if len(data) > checkedAt {
		sum := crc32.Checksum(data[checkedAt:], crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(data[checksumAt:], sum)
	}
}

// maxChain is the longest chain that a pack can have.
const maxChain = 64

// useAll reads a pack and, if it is valid, looks up everything in it.
func useAll(t testing.TB, data []byte) (read bool) {
	t.Helper()
	p, err := pack.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return false
	}
	frames := make([]pack.Frame, 0, maxChain)
	for r := range p.Rows() {
		require.Less(t, r.Start, r.End)
		frames = p.Find(r.Start, frames[:0])
		require.NotEmpty(t, frames)
		require.LessOrEqual(t, len(frames), maxChain)
		for _, f := range frames {
			require.LessOrEqual(t, f.Line, uint32(1<<31-1))
		}
		require.Equal(t, frames, p.Find(r.End-1, nil))
	}
	var end uint32
	for s := range p.Symbols() {
		require.GreaterOrEqual(t, s.Range.Start, end)
		require.NotEmpty(t, s.Name)
		end = s.Range.End
	}
	return true
}

// TestDamage verifies that a damaged pack, with or without a matching checksum, is refused or
// harmless.
func TestDamage(t *testing.T) {
	whole, err := small().Bytes()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 10_000 {
		data := bytes.Clone(whole)
		for range 1 + rng.IntN(3) {
			data[rng.IntN(len(data))] = byte(rng.Uint32())
		}
		if rng.IntN(10) == 0 {
			data = data[:rng.IntN(len(data))]
		}
		if !bytes.Equal(data, whole) {
			assert.False(t, useAll(t, data), "the checksum tells")
		}
		seal(data)
		if useAll(t, data) {
			accepted++
		}
	}
	assert.Positive(t, accepted, "some damages leave a pack that is well-formed")
}

func TestReadRefuses(t *testing.T) {
	whole, err := small().Bytes()
	require.NoError(t, err)
	read := func(data []byte, size int) error {
		_, err := pack.Read(bytes.NewReader(data), int64(size))
		return err
	}
	require.NoError(t, read(whole, len(whole)))
	require.ErrorIs(t, read(nil, 0), pack.ErrFormat)
	require.ErrorIs(t, read([]byte("\x7fELF"+string(whole)), len(whole)+4), pack.ErrFormat)
	require.ErrorIs(t, read(whole[:len(whole)-1], len(whole)-1), pack.ErrDamaged)
	require.ErrorIs(t, read(whole[:len(whole)-1], len(whole)), pack.ErrDamaged)
	other := bytes.Clone(whole)
	other[8]++
	require.ErrorIs(t, read(other, len(other)), pack.ErrVersion)
}

// TestReadRefusesSymbolsWithoutName verifies that a pack is refused if a symbol's name is an empty
// string, which a reader would write as the name of a function.
func TestReadRefusesSymbolsWithoutName(t *testing.T) {
	w := small()
	w.Symbol(pack.Symbol{Range: pack.Range{Start: 0x100, End: 0x110}, Name: "x"})
	data, err := w.Bytes()
	require.NoError(t, err)
	at := bytes.Index(data, []byte("\x01x"))
	require.Positive(t, at)
	copy(data[at:], []byte{0, 0}) // two empty strings take the place of a string of one byte
	seal(data)
	_, err = pack.Read(bytes.NewReader(data), int64(len(data)))
	require.ErrorIs(t, err, pack.ErrDamaged)
}

// TestReadRefusesFunctionsWithoutName verifies that a pack is refused if a function has no name, so no reader has to decide
// what an inlined function without one means.
func TestReadRefusesFunctionsWithoutName(t *testing.T) {
	const firstLength, headerLen, before = 16, 72, 3 // sections
	w := small()
	w.Row(0x100, w.Node(0, w.Function("x", 0, 0), 0, 0), w.File("x.c"), 1)
	w.Row(0x110, 0, 0, 0)
	data, err := w.Bytes()
	require.NoError(t, err)
	at := headerLen
	for i := range before {
		at += int(binary.LittleEndian.Uint32(data[firstLength+4*i:]))
	}
	require.Positive(t, data[at], "the first function's name")
	data[at] = 0
	seal(data)
	_, err = pack.Read(bytes.NewReader(data), int64(len(data)))
	require.ErrorIs(t, err, pack.ErrDamaged)
}

// crafted returns a pack with that many empty thunks and sections, which a [pack.Writer] may
// refuse.
func crafted(t *testing.T, thunks, sections int) []byte {
	t.Helper()
	const firstLength, headerLen = 16, 72
	info := testInfo
	info.Sections = nil
	data, err := pack.NewWriter(info).Bytes()
	require.NoError(t, err)
	end := headerLen + int(binary.LittleEndian.Uint32(data[firstLength:]))
	made := bytes.Clone(data[:end-2]) // without the two numbers
	made = append(binary.AppendUvarint(made, uint64(thunks)), make([]byte, 2*thunks)...)
	made = append(binary.AppendUvarint(made, uint64(sections)), make([]byte, 3*sections)...)
	binary.LittleEndian.PutUint32(made[firstLength:], uint32(len(made)-headerLen))
	made = append(made, data[end:]...)
	seal(made)
	return made
}

// TestReadBoundsRanges verifies that a pack cannot make a reader hold any number of thunks or
// sections, which would make landmarks and look-ups slow.
func TestReadBoundsRanges(t *testing.T) {
	const most = 4096
	assert.True(t, useAll(t, crafted(t, most, most)))
	for _, counts := range [][2]int{{most + 1, 0}, {0, most + 1}} {
		data := crafted(t, counts[0], counts[1])
		_, err := pack.Read(bytes.NewReader(data), int64(len(data)))
		assert.ErrorIs(t, err, pack.ErrDamaged, "%v", counts)
	}
}

func FuzzRead(f *testing.F) {
	for _, w := range []*pack.Writer{small(), pack.NewWriter(testInfo)} {
		data, err := w.Bytes()
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		seal(data)
		useAll(t, data)
	})
}

func BenchmarkFind(b *testing.B) {
	p, want := random(b, 300_000)
	addrs := make([]uint32, 0, len(want))
	for addr := range want {
		addrs = append(addrs, addr)
	}
	frames := make([]pack.Frame, 0, maxChain)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		frames = p.Find(addrs[i%len(addrs)], frames[:0])
	}
}
