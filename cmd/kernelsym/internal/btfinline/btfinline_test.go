// SPDX-License-Identifier: Apache-2.0

package btfinline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/btf/btftest"
)

func all(string) bool { return true }

// Kinds in include/uapi/linux/btf.h.
const (
	kindPtr      = 2
	kindFunc     = 12
	kindLocParam = 20
	kindLocProto = 21
	kindLocSec   = 22
)

func concat(parts ...[]byte) (joined []byte) {
	for _, p := range parts {
		joined = append(joined, p...)
	}
	return joined
}

// The BTF of a kernel with four functions. Two are ordinary functions, and one of these was also
// inlined twice. The other two exist only inlined: one in .text, one in .init.text.
var (
	kernelBTF = btftest.File(concat( // types 1 to 3, 22 bytes of strings
		btftest.Type(0, kindPtr, 0), btftest.Type(1, kindFunc, 0), btftest.Type(11, kindFunc, 0),
	), "\x00ksys_read\x00vfs_write\x00\x00")
	kernelSites = concat(
		btftest.Type(22, kindFunc, 0),                                       // 4
		btftest.Type(28, kindFunc, 0),                                       // 5
		btftest.Type(0, kindLocParam, 1, 8, 5),                              // 6: in register 5
		btftest.Type(0, kindLocProto, 2, 6, 0),                              // 7
		btftest.Type(33, kindLocSec, 3, 3, 7, 0x44, 4, 7, 0x14, 4, 7, 0x61), // sorted by function
		btftest.Type(45, kindLocSec, 1, 5, 0, 0x10),
	)
	kernelInline = btftest.File(kernelSites, "fdget\x00init\x00inline.text\x00inline.init.text\x00")
)

func TestEntries(t *testing.T) {
	kernel, err := btf.Parse(kernelBTF)
	require.NoError(t, err)
	inline, err := btf.ParseSplit(kernelInline, kernel)
	require.NoError(t, err)
	base, err := Matching(kernel, all)
	require.NoError(t, err)
	assert.Equal(t, Functions{2: "ksys_read", 3: "vfs_write"}, base)
	functions, err := Matching(inline, all)
	require.NoError(t, err)
	entries, err := Entries(inline, base, functions)
	require.NoError(t, err)
	assert.Equal(t, []Entry{
		{"vfs_write", ".text", 0x44}, {"fdget", ".text", 0x14}, {"fdget", ".text", 0x61}, {"init", ".init.text", 0x10},
	}, entries)

	functions, err = Matching(inline, func(name string) bool { return name == "init" })
	require.NoError(t, err)
	base, err = Matching(kernel, func(string) bool { return false })
	require.NoError(t, err)
	entries, err = Entries(inline, base, functions)
	require.NoError(t, err)
	assert.Equal(t, []Entry{{"init", ".init.text", 0x10}}, entries)
}

// TestUnknown verifies that unknown contents are rejected, and that the error names them.
func TestUnknown(t *testing.T) {
	entries := func(types []byte, strings string) error {
		b, err := btf.Parse(btftest.File(types, strings))
		require.NoError(t, err)
		_, err = Entries(b)
		return err
	}
	for want, types := range map[string][]byte{
		"type 2 is of kind 23, which is not known":            concat(btftest.Type(0, kindPtr, 0), btftest.Type(0, kindLocSec+1, 0)),
		"type 1 is cut off":                                   btftest.Type(0, kindLocSec, 2, 1, 0, 0x10),
		`type 1: malformed BTF: sites in a section named ""`:  btftest.Type(0, kindLocSec, 0),
		`sites in a section named "text"`:                     btftest.Type(5, kindLocSec, 0),
		"type 1: a site of type 7, which is no function":      btftest.Type(42, kindLocSec, 1, 7, 0, 0),
		`sites in a section named "inline"`:                   btftest.Type(10, kindLocSec, 0),
		`sites in a section named "inline./../../etc/passwd"`: btftest.Type(17, kindLocSec, 0),
	} {
		err := entries(types, "\x00abc\x00text\x00inline\x00inline./../../etc/passwd\x00.text\x00")
		require.ErrorIs(t, err, btf.ErrMalformed)
		require.ErrorContains(t, err, want)
	}
	assert.NoError(t, entries(btftest.Type(1, kindLocSec, 0), "\x00.text\x00"), "as the kernel's selftests have it")
}

func FuzzEntries(f *testing.F) {
	f.Add(kernelBTF, kernelInline)
	f.Add(kernelInline, kernelBTF)
	f.Add(kernelBTF, kernelInline[:60])
	f.Fuzz(func(t *testing.T, base, data []byte) {
		kernel, err := btf.Parse(base)
		if err != nil {
			return
		}
		inline, err := btf.ParseSplit(data, kernel)
		if err != nil {
			require.ErrorIs(t, err, btf.ErrMalformed)
			return
		}
		below, _ := Matching(kernel, all)
		functions, errMatching := Matching(inline, all)
		entries, err := Entries(inline, below, functions)
		if errMatching != nil {
			require.ErrorIs(t, err, btf.ErrMalformed)
		}
		assert.LessOrEqual(t, len(entries)*siteLen, len(data))
		for _, e := range entries {
			assert.Equal(t, byte('.'), e.Section[0])
		}
	})
}
