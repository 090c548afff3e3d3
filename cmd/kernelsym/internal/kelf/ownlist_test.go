// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A listed symbol has an offset, and its type and name as one text.
type listed struct {
	offset uint32
	text   string
}

// newOwnList writes a list in which the byte 1 stands for "T _", and other bytes for themselves.
func newOwnList(symbols ...listed) *ownList {
	l := &ownList{order: binary.LittleEndian, num: len(symbols)}
	for i := range 256 {
		l.index = binary.LittleEndian.AppendUint16(l.index, uint16(len(l.tokens)))
		token := string([]byte{byte(i), 0})
		switch i {
		case 0:
			token = "\x00"
		case 1:
			token = "T_\x00"
		}
		l.tokens = append(l.tokens, token...)
	}
	for _, s := range symbols {
		text := strings.ReplaceAll(s.text, "T_", "\x01")
		l.names = append(binary.AppendUvarint(l.names, uint64(len(text))), text...)
		l.offsets = binary.LittleEndian.AppendUint32(l.offsets, s.offset)
	}
	return l
}

const base = 0xffffffff81000000

var anchors = []anchor{{"_stext", base}, {"_etext", base + 0x300}}

func TestOwnListIsPrintedAsTheKernelDoes(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, list := range map[string]*ownList{
		"offsets": newOwnList(listed{0, "T_stext"}, listed{0x100, "t" + long}, listed{0x300, "T_etext"}),
		"percpu": newOwnList(listed{0x1000, "Apercpu"}, // an address
			listed{0xffffffff, "T_stext"}, listed{0xfffffeff, "t" + long}, listed{0xfffffcff, "T_etext"}),
		"places": newOwnList(listed{0xfffffe00, "T_stext"}, listed{0xfffffefc, "t" + long}, listed{0xf8, "T_etext"}),
	} {
		text, err := list.print(anchors...)
		require.NoError(t, err, name)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if name == "percpu" {
			assert.Equal(t, "0000000000001000 A percpu", lines[0])
			lines = lines[1:]
		}
		assert.Equal(t, []string{
			"ffffffff81000000 T _stext",
			"ffffffff81000100 t " + long,
			"ffffffff81000300 T _etext",
		}, lines, name)
	}
}

func TestOwnListOfAnUnknownFormIsRefused(t *testing.T) {
	good := func() *ownList { return newOwnList(listed{0, "T_stext"}, listed{0x300, "T_etext"}) }
	for name, damage := range map[string]func(l *ownList){
		"another address":  func(l *ownList) { l.offsets[4] ^= 1 },
		"too few offsets":  func(l *ownList) { l.offsets = l.offsets[:7] },
		"out of order":     func(l *ownList) { l.offsets[3] = 1 },
		"of no form":       func(l *ownList) { l.offsets[0] = 1 },
		"too few names":    func(l *ownList) { l.num++; l.offsets = append(l.offsets, 0, 0, 0, 0) },
		"too long a name":  func(l *ownList) { l.names[0] = 100 },
		"an empty name":    func(l *ownList) { l.names[0] = 0 },
		"no such symbol":   func(l *ownList) { l.names[2] = 'x' },
		"index cut off":    func(l *ownList) { l.index = l.index[:511] },
		"index beyond":     func(l *ownList) { l.index[3] = 0xff },
		"tokens cut off":   func(l *ownList) { l.tokens = l.tokens[:len(l.tokens)-1] },
		"name of two rows": func(l *ownList) { l.names[2] = '\n' },
		"too long a token": func(l *ownList) { // a small file could make a large list of it
			binary.LittleEndian.PutUint16(l.index[2:], uint16(len(l.tokens)))
			l.tokens = append(l.tokens, strings.Repeat("x", maxName+2)+"\x00"...)
		},
	} {
		l := good()
		damage(l)
		_, err := l.print(anchors...)
		require.ErrorIs(t, err, errOwnList, name)
	}
	_, err := good().print()
	assert.ErrorIs(t, err, errOwnList, "without an anchor")
}

// FuzzOwnList verifies that any bytes result in lines with a type and a name each, or in an error.
func FuzzOwnList(f *testing.F) {
	good := newOwnList(listed{0, "T_stext"}, listed{0x300, "T_etext"})
	f.Add(good.num, good.names, good.tokens, good.index, good.offsets)
	f.Fuzz(func(t *testing.T, num int, names, tokens, index, offsets []byte) {
		l := &ownList{binary.LittleEndian, num, names, tokens, index, offsets}
		n := 0
		err := l.each(func(_ int, _ byte, name []byte) {
			if n++; len(name) == 0 || len(name) > maxName || slices.Contains(name, '\n') {
				t.Fatalf("symbol %d is called %q", n, name)
			}
		})
		if err == nil && n != max(num, 0) {
			t.Fatalf("%d symbols of %d", n, num)
		}
	})
}
