// SPDX-License-Identifier: Apache-2.0

package btf

import (
	"bytes"
	"encoding/binary"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/btf/btftest"
)

// typ returns a struct btf_type, followed by that many bytes.
func typ(name uint32, kind Kind, members uint32, more int) []byte {
	return btftest.Type(name, uint8(kind), members, make([]uint32, more/4)...)
}

// namesOf returns the names of the functions of b, by the numbers of their types.
func namesOf(b *BTF) (map[uint32]string, error) {
	functions, err := b.Functions()
	return maps.Collect(functions.All()), err
}

func concat(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

const someStrings = "\x00main\x00helper\x00"

// someTypes has a type of each kind that is followed by more data, and two functions.
var someTypes = concat(
	typ(0, kindInt, 0, 4), typ(0, kindArray, 0, 12), typ(0, kindStruct, 2, 24), typ(0, kindUnion, 1, 12),
	typ(0, kindEnum, 3, 24), typ(0, kindFuncProto, 2, 16), typ(1, KindFunc, 1, 0), typ(0, kindVar, 0, 4),
	typ(0, kindDataSec, 1, 12), typ(0, kindDeclTag, 0, 4), typ(0, kindEnum64, 1, 12), typ(6, KindFunc, 0, 0),
)

func TestParse(t *testing.T) {
	b, err := Parse(btftest.File(someTypes, someStrings))
	require.NoError(t, err)
	names, err := namesOf(b)
	require.NoError(t, err)
	assert.Equal(t, map[uint32]string{7: "main", 12: "helper"}, names)
	assert.Nil(t, b.Base())
}

// TestStrings verifies that only an offset at which a string begins has a string, so all of them together are not longer
// than the section.
func TestStrings(t *testing.T) {
	longest := strings.Repeat("a", MaxString)
	section := "\x00main\x00" + longest + "\x00" + longest + "b\x00no end"
	b, err := Parse(btftest.File(nil, section))
	require.NoError(t, err)
	all := ""
	for offset := range uint32(len(section) + 2) {
		all += b.String(offset)
	}
	assert.Equal(t, "main"+longest, all)
	assert.Empty(t, b.String(1<<32-1))
}

// TestNameThatIsTheEndOfAnother verifies that functions have the names that the kernel gives them.
func TestNameThatIsTheEndOfAnother(t *testing.T) {
	b, err := Parse(btftest.File(typ(2, KindFunc, 0, 0), someStrings))
	require.NoError(t, err)
	functions, err := b.Functions()
	require.NoError(t, err)
	name, ok := functions.Name(1)
	assert.True(t, ok)
	assert.Equal(t, "ain", name)
	_, ok = functions.Name(2)
	assert.False(t, ok)
}

// TestFunctionsWithOneName verifies that functions take less memory than the BTF, even if a long name is that of all.
func TestFunctionsWithOneName(t *testing.T) {
	data := btftest.File(bytes.Repeat(typ(1, KindFunc, 0, 0), 10_000), "\x00"+strings.Repeat("a", 500)+"\x00")
	b, err := Parse(data)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	functions, err := b.Functions()
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(5*len(data)), "with what the slice has outgrown")
	name, _ := functions.Name(10_000)
	assert.Len(t, name, 500)
}

// TestParseSplit puts two layers on a base: each continues the numbering of types and strings.
func TestParseSplit(t *testing.T) {
	base, err := Parse(btftest.File(someTypes, someStrings)) // 12 types, 13 bytes of strings
	require.NoError(t, err)
	module, err := ParseSplit(btftest.File(concat(typ(14, KindFunc, 0, 0), typ(1, KindFunc, 0, 0)), "\x00probe\x00"), base)
	require.NoError(t, err)
	names, err := namesOf(module)
	require.NoError(t, err)
	assert.Equal(t, map[uint32]string{13: "probe", 14: "main"}, names)

	inline, err := ParseSplit(btftest.File(typ(14, KindFunc, 0, 0), "top\x00"), module)
	require.NoError(t, err)
	assert.Same(t, module, inline.Base())
	names, err = namesOf(inline)
	require.NoError(t, err)
	assert.Equal(t, map[uint32]string{15: "probe"}, names)
	assert.Equal(t, "top", inline.String(20))
	assert.Equal(t, "helper", inline.String(6))
	assert.Empty(t, inline.String(24))
	assert.Empty(t, inline.String(1<<32-1))

	damaged, err := Parse(btftest.File(typ(0, kindLast+1, 0, 0), ""))
	require.NoError(t, err)
	_, err = ParseSplit(btftest.File(nil, ""), damaged)
	require.ErrorIs(t, err, ErrMalformed)
	assert.ErrorContains(t, err, "its base: malformed BTF: type 1 is of kind 23, which is not known")
}

// TestParseOfLinux7_4 parses features that older readers do not support: a header with a
// section about the layout of kinds, member counts of 24 bits, and the kinds for inlined
// functions.
func TestParseOfLinux7_4(t *testing.T) {
	const many = 0x1_0001
	types := concat(
		typ(0, kindLocParam, 2, 4+2*4), typ(0, kindLocProto, 3, 3*4), typ(1, KindLocSec, many, many*12),
		typ(0, kindFuncProto, many, many*8), typ(1, KindFunc, 0, 0),
	)
	data := btftest.File(types, someStrings)
	longer := make([]byte, headerLen+8)
	copy(longer, data)
	binary.NativeEndian.PutUint32(longer[4:], headerLen+8)
	b, err := Parse(append(longer, data[headerLen:]...))
	require.NoError(t, err)
	var kinds []Kind
	for typ, err := range b.Types() {
		require.NoError(t, err)
		kinds = append(kinds, typ.Kind)
		if typ.Kind == KindLocSec {
			assert.Equal(t, uint32(many), typ.Members)
			assert.Len(t, typ.More, many*12)
			assert.Equal(t, "main", b.Name(typ))
		}
	}
	assert.Equal(t, []Kind{kindLocParam, kindLocProto, KindLocSec, kindFuncProto, KindFunc}, kinds)
}

func TestErrors(t *testing.T) {
	whole := btftest.File(someTypes, someStrings)
	for name, damage := range map[string]func(b []byte) []byte{
		"nothing":       func([]byte) []byte { return nil },
		"short header":  func(b []byte) []byte { return b[:headerLen-1] },
		"magic":         func(b []byte) []byte { b[0]++; return b },
		"version":       func(b []byte) []byte { b[2]++; return b },
		"flags":         func(b []byte) []byte { b[3]++; return b },
		"small header":  func(b []byte) []byte { b[4]--; return b },
		"cut off":       func(b []byte) []byte { return b[:len(b)-1] },
		"types outside": func(b []byte) []byte { b[11], b[15] = 0xff, 0xff; return b },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(damage(append([]byte(nil), whole...)))
			assert.ErrorIs(t, err, ErrMalformed)
		})
	}
	for name, types := range map[string][]byte{
		"newer kind": concat(typ(1, KindFunc, 0, 0), typ(0, kindLast+1, 0, 0)),
		"void":       concat(typ(1, KindFunc, 0, 0), typ(0, 0, 0, 0)),
		"members":    concat(typ(1, KindFunc, 0, 0), typ(0, kindStruct, 0xffff, 12)),
		"sites":      concat(typ(1, KindFunc, 0, 0), typ(0, KindLocSec, 0xff_ffff, 12)),
		"half":       concat(typ(1, KindFunc, 0, 0), typ(0, kindInt, 0, 4)[:10]),
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Parse(btftest.File(types, someStrings))
			require.NoError(t, err)
			names, err := namesOf(b)
			require.ErrorIs(t, err, ErrMalformed)
			assert.Equal(t, map[uint32]string{1: "main"}, names, "those before")
		})
	}
}

// FuzzParse parses any data, alone and as a continuation of itself, and reads everything in it.
func FuzzParse(f *testing.F) {
	f.Add(btftest.File(someTypes, someStrings), uint32(1))
	f.Add(btftest.File(typ(0, kindStruct, 0xffff, 0), ""), uint32(1<<32-1))
	f.Add(btftest.File(concat(typ(0, kindLocParam, 1, 8), typ(0, kindLocProto, 1, 4), typ(1, KindLocSec, 1, 12)), "\x00inline.text\x00"), uint32(13))
	f.Add([]byte("\x9f\xeb\x01\x00"), uint32(0))
	f.Fuzz(func(t *testing.T, data []byte, offset uint32) {
		b, err := Parse(data)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		assert.LessOrEqual(t, len(b.String(offset)), len(data))
		names, err := namesOf(b)
		assert.LessOrEqual(t, len(names)*typeLen, len(data))
		split, errSplit := ParseSplit(data, b)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			require.ErrorIs(t, errSplit, ErrMalformed)
			return
		}
		require.NoError(t, errSplit)
		assert.LessOrEqual(t, len(split.String(offset)), len(data))
		again, err := namesOf(split)
		require.NoError(t, err)
		assert.Len(t, again, len(names))
	})
}
