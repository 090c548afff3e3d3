// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// memory is a section in memory.
type memory struct {
	*bytes.Reader
	name string
}

func (m memory) Name() string { return m.name }
func (m memory) Size() uint64 { return uint64(m.Reader.Size()) }

// allCode covers the addresses below 4 GiB.
type allCode struct{}

func (allCode) Offset(start, end uint64) (pack.Range, bool) {
	return pack.Range{Start: uint32(start), End: uint32(end)}, start < end && end <= 1<<32-1
}

// FuzzBuild reads debug information with arbitrary contents. It is either rejected, or makes a pack
// that can be read.
func FuzzBuild(f *testing.F) {
	for _, name := range []string{"inlined.ko", "clang.ko", "clang-arm64.ko"} {
		file, err := kelf.Open("testdata/" + name)
		require.NoError(f, err)
		s, err := openSections(file)
		require.NoError(f, err)
		f.Add(content(f, s.info), content(f, s.line), s.tables[tableAbbrev], s.tables[tableStr],
			s.tables[tableLineStr], s.tables[tableStrOffsets], s.tables[tableAddr], s.tables[tableRnglists])
		require.NoError(f, file.Close())
	}
	f.Fuzz(func(t *testing.T, info, line, abbrev, str, lineStr, strOffsets, addr, ranges []byte) {
		s := &sections{
			info: memory{bytes.NewReader(info), ".debug_info"}, line: memory{bytes.NewReader(line), ".debug_line"},
			tables: [numTables][]byte{abbrev, str, lineStr, strOffsets, addr, ranges, ranges}, order: binary.LittleEndian,
		}
		s.allow(uint64(len(info) + len(line)))
		w := pack.NewWriter(pack.Info{
			BuildID: "0123456789abcdef", Name: "vmlinux", Arch: "amd64",
			Extent: pack.Range{End: 1<<32 - 1},
		})
		if _, err := build(s, allCode{}, w, nil); err != nil {
			return
		}
		data, err := w.Bytes()
		if err != nil {
			assert.ErrorIs(t, err, pack.ErrInput) // about names and numbers, but not about order
			return
		}
		p, err := pack.Read(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		for r := range p.Rows() {
			assert.NotEmpty(t, p.Find(r.Start, nil))
		}
	})
}

func content(f *testing.F, s section) []byte {
	data := make([]byte, s.Size())
	_, err := s.ReadAt(data, 0)
	require.NoError(f, err)
	return data
}
