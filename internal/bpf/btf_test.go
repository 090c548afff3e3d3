package bpf

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// blob returns BTF with types and strings.
func blob(types []byte, strings string) []byte {
	b := make([]byte, btfHeaderLen)
	binary.NativeEndian.PutUint16(b, btfMagic)
	b[2] = 1
	binary.NativeEndian.PutUint32(b[4:], btfHeaderLen)
	binary.NativeEndian.PutUint32(b[12:], uint32(len(types)))
	binary.NativeEndian.PutUint32(b[16:], uint32(len(types)))
	binary.NativeEndian.PutUint32(b[20:], uint32(len(strings)))
	return append(append(b, types...), strings...)
}

// typ returns a struct btf_type, with so many bytes behind it.
func typ(name, kind, members uint32, more int) []byte {
	b := make([]byte, btfTypeLen+more)
	binary.NativeEndian.PutUint32(b, name)
	binary.NativeEndian.PutUint32(b[4:], kind<<24|members)
	return b
}

func concat(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

const someStrings = "\x00main\x00helper\x00"

// someTypes has a type of each kind that is followed by something, and two functions.
var someTypes = concat(
	typ(0, kindInt, 0, 4), typ(0, kindArray, 0, 12), typ(0, kindStruct, 2, 24), typ(0, kindUnion, 1, 12),
	typ(0, kindEnum, 3, 24), typ(0, kindFuncProto, 2, 16), typ(1, kindFunc, 1, 0), typ(0, kindVar, 0, 4),
	typ(0, kindDataSec, 1, 12), typ(0, kindDeclTag, 0, 4), typ(0, kindEnum64, 1, 12), typ(6, kindFunc, 0, 0),
)

func TestBTF(t *testing.T) {
	b, err := ParseBTF(blob(someTypes, someStrings))
	require.NoError(t, err)
	names, err := b.FunctionNames()
	require.NoError(t, err)
	assert.Equal(t, map[uint32]string{7: "main", 12: "helper"}, names)
	assert.Equal(t, "ain", b.String(2))
	assert.Empty(t, b.String(0))
	assert.Empty(t, b.String(1000))
	assert.Empty(t, (&BTF{strings: []byte("no end")}).String(1))
}

func TestBTFErrors(t *testing.T) {
	whole := blob(someTypes, someStrings)
	for name, damage := range map[string]func(b []byte) []byte{
		"nothing":       func([]byte) []byte { return nil },
		"short header":  func(b []byte) []byte { return b[:btfHeaderLen-1] },
		"magic":         func(b []byte) []byte { b[0]++; return b },
		"cut off":       func(b []byte) []byte { return b[:len(b)-1] },
		"types outside": func(b []byte) []byte { b[11], b[15] = 0xff, 0xff; return b },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseBTF(damage(append([]byte(nil), whole...)))
			assert.ErrorIs(t, err, ErrBTF)
		})
	}
	for name, types := range map[string][]byte{
		"newer kind": concat(typ(1, kindFunc, 0, 0), typ(0, kindLast+1, 0, 0)),
		"void":       concat(typ(1, kindFunc, 0, 0), typ(0, 0, 0, 0)),
		"members":    concat(typ(1, kindFunc, 0, 0), typ(0, kindStruct, 0xffff, 12)),
		"half":       concat(typ(1, kindFunc, 0, 0), typ(0, kindInt, 0, 4)[:10]),
	} {
		t.Run(name, func(t *testing.T) {
			b, err := ParseBTF(blob(types, someStrings))
			require.NoError(t, err)
			names, err := b.FunctionNames()
			require.ErrorIs(t, err, ErrBTF)
			assert.Equal(t, map[uint32]string{1: "main"}, names, "those before")
		})
	}
}

// FuzzBTF parses anything, and asks for everything in it.
func FuzzBTF(f *testing.F) {
	f.Add(blob(someTypes, someStrings), uint32(1))
	f.Add(blob(typ(0, kindStruct, 0xffff, 0), ""), uint32(1<<32-1))
	f.Add([]byte("\x9f\xeb\x01\x00"), uint32(0))
	f.Fuzz(func(t *testing.T, data []byte, offset uint32) {
		b, err := ParseBTF(data)
		if err != nil {
			require.ErrorIs(t, err, ErrBTF)
			return
		}
		assert.LessOrEqual(t, len(b.String(offset)), len(data))
		names, err := b.FunctionNames()
		if err != nil {
			require.ErrorIs(t, err, ErrBTF)
		}
		assert.LessOrEqual(t, len(names)*btfTypeLen, len(data))
	})
}

func TestTypeName(t *testing.T) {
	for n, want := range map[uint32]string{0: "unspec", 6: "xdp", 32: "netfilter", 33: "", 1 << 31: ""} {
		assert.Equal(t, want, (&Program{Type: n}).TypeName())
	}
}
