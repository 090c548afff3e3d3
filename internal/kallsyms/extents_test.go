// SPDX-License-Identifier: Apache-2.0

package kallsyms_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestExtents verifies where functions begin and end: aliases have one range, split functions two, and pairs of _start
// and _end symbols the range between them.
func TestExtents(t *testing.T) {
	const list = `0000000000001000 T _text
0000000000001010 T __entry_text_start
0000000000001018 t asm_exc
0000000000001080 T __entry_text_end
0000000000001100 t idle.cold
0000000000001120 t other
0000000000001200 t __pfx_idle
0000000000001210 t idle
0000000000001210 T also_idle
0000000000001210 d not_code
0000000000001240 T behind
0000000000002000 T _etext
0000000000003000 T after_the_text
`
	found, err := kallsyms.Extents(strings.NewReader(list), "idle", "also_idle", "behind", "__entry_text", "missing", "not_code", "after_the_text", kallsyms.CoreText)
	require.NoError(t, err)
	assert.Equal(t, map[string][]symtab.Range{
		"idle":            {{Start: 0x1100, End: 0x1120}, {Start: 0x1210, End: 0x1240}},
		"also_idle":       {{Start: 0x1210, End: 0x1240}},
		"behind":          {{Start: 0x1240, End: 0x2000}},
		"__entry_text":    {{Start: 0x1010, End: 0x1080}},
		kallsyms.CoreText: {{Start: 0x1000, End: 0x2000}},
		"missing":         nil,
		"not_code":        nil,
		"after_the_text":  nil,
	}, found)
}

// TestExtentsOfAHiddenList verifies that a list whose addresses are all zero is an error, not an empty result.
func TestExtentsOfAHiddenList(t *testing.T) {
	_, err := kallsyms.Extents(strings.NewReader("0000000000000000 T _text\n0000000000000000 T idle\n"), "idle")
	require.ErrorIs(t, err, kallsyms.ErrRestricted)
	_, err = kallsyms.Extents(strings.NewReader("no list"), "idle")
	require.ErrorIs(t, err, kallsyms.ErrSyntax)
}

// TestExtentsOf verifies that the same functions are found in the image of a core kernel, each by the name that it has there.
func TestExtentsOf(t *testing.T) {
	const list = `0000000000001000 T _text
0000000000001010 T __entry_text_start
0000000000001018 t asm_exc
0000000000001080 T __entry_text_end
0000000000001100 t idle.cold
0000000000001120 t other
0000000000001200 t __pfx_idle
0000000000001210 t idle
0000000000001210 T also_idle
0000000000001240 T behind
0000000000002000 T _etext
`
	const initText = `0000000000004000 T _sinittext
0000000000004000 t early
0000000000005000 T _einittext
`
	names := []string{"idle", "also_idle", "behind", "__entry_text", "missing", kallsyms.CoreText}
	for _, list := range []string{list, list + initText} {
		core, err := kallsyms.ParseCore(strings.NewReader(list), "amd64", "", "")
		require.NoError(t, err)
		want, err := kallsyms.Extents(strings.NewReader(list), names...)
		require.NoError(t, err)
		want["also_idle"] = nil // an alias
		assert.Equal(t, want, kallsyms.ExtentsOf(core, names...))
	}

	core, err := kallsyms.ParseCore(strings.NewReader("0000000000001000 T _text\n0000000000002000 T _etext\n"), "arm64", "", "")
	require.NoError(t, err)
	assert.Equal(t, map[string][]symtab.Range{"__entry_text": nil}, kallsyms.ExtentsOf(core, "__entry_text"))
}
