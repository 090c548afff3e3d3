// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestContract_3_2_ModuleFiles verifies that the image of a module's file has the symbols and ranges that the
// loaded module would have.
func TestContract_3_2_ModuleFiles(t *testing.T) {
	const at = 0xffffffffc0000000
	type symbol struct {
		name       string
		start, end uint64
	}
	sections := []FileSection{
		{".text", at, at + 0x1100}, {".empty.text", at + 0x1100, at + 0x1100},
		{".exit.text", at + 0x1100, at + 0x1120}, {".altinstr_replacement", at + 0x1120, at + 0x1130},
	}
	for _, tt := range []struct {
		arch, release string
		pltFollows    bool
		last          symbol
	}{
		{"amd64", "6.12.0", false, symbol{"exit", at + 0x1100, at + 0x2000}}, // at the end of its page
		{"amd64", "", false, symbol{"exit", at + 0x1100, at + 0x2000}},
		{"amd64", "6.1.0", false, symbol{"exit", at + 0x1100, at + 0x1120}}, // at the next section
		{"arm64", "6.12.0", true, symbol{"exit", at + 0x1100, at + 0x1140}}, // at .plt
		{"arm64", "6.12.0", false, symbol{"exit", at + 0x1100, at + 0x1120}},
	} {
		f := File{
			Name: "m", BuildID: "0123", Arch: tt.arch, Release: tt.release,
			PLTFollows: tt.pltFollows, Sections: sections,
		}
		m, err := f.Image(func(add func(uint64, byte, []byte)) {
			add(at+0x1000, 't', []byte("second"))
			add(at+0x1000, 't', []byte("alias"))
			add(at+0x1100, 't', []byte("exit"))
			add(at, 't', []byte("first"))
			add(at+0x3000, 't', []byte("elsewhere"))
		})
		require.NoError(t, err)
		assert.Equal(t, uint64(at), m.Base())
		assert.Equal(t, timeline.OriginModule, m.Origin)
		var got []symbol
		for i := range m.Len() {
			s := m.Text.Symbol(i)
			got = append(got, symbol{m.Text.Name(s).System, s.Start, s.End()})
		}
		assert.Equal(t, []symbol{{"first", at, at + 0x1000}, {"second", at + 0x1000, at + 0x1100}, tt.last}, got,
			"%s %s", tt.arch, tt.release)
	}
}

func TestModuleFileWithoutCodeHasNoImage(t *testing.T) {
	f := File{Name: "m", Arch: "amd64", Sections: []FileSection{{".text", 1 << 40, 1 << 40}}}
	m, err := f.Image(func(func(uint64, byte, []byte)) {})
	require.NoError(t, err)
	assert.Nil(t, m)
}
