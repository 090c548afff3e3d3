// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/bootimage"
	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// A layout says how the parts of a list follow each other.
type layout struct {
	align                        int
	offsetsFirst, base, sequence bool
}

// layouts has the layout of each version of Linux.
var layouts = map[string]layout{
	"5.10": {8, true, true, false},
	"6.1":  {8, true, true, true},
	"6.12": {8, false, true, true},
	"7":    {4, false, false, true},
}

// parts are the positions of the parts in an image.
type parts map[string]int

// lay appends a list to an image.
func (y layout) lay(image []byte, l *ownList) ([]byte, parts) {
	at := parts{}
	put := func(name string, data []byte) {
		image = append(image, make([]byte, -len(image)&(y.align-1))...)
		at[name] = len(image)
		image = append(image, data...)
	}
	offsets := func() {
		put("offsets", l.offsets)
		if y.base {
			put("base", make([]byte, 8))
		}
	}
	var markers []byte
	for i, at := 0, 0; i < l.num; i++ {
		if i%256 == 0 {
			markers = binary.LittleEndian.AppendUint32(markers, uint32(at))
		}
		n, width := binary.Uvarint(l.names[min(at, len(l.names)):])
		at += max(width, 1) + int(n%maxName)
	}
	if y.offsetsFirst {
		offsets()
	}
	put("number", binary.LittleEndian.AppendUint32(nil, uint32(l.num)))
	put("names", l.names)
	put("markers", markers)
	if y.sequence && y.offsetsFirst {
		put("sequence", bytes.Repeat([]byte{0, 1, 2}, l.num))
	}
	put("tokens", l.tokens)
	put("index", l.index)
	if !y.offsetsFirst {
		offsets()
		put("sequence", bytes.Repeat([]byte{0, 1, 2}, l.num))
	}
	return append(image, bytes.Repeat([]byte("data "), 100)...), at
}

// kernelSymbols are n symbols of code, some of data and one that is as long as names may be. Two have
// the same address, and three make the list end.
func kernelSymbols(n int) (symbols []listed) {
	symbols = []listed{{0, "T_text"}, {0x100, "T_stext"}, {0x100, "talias"}, {0x200, "t" + strings.Repeat("l", 300)}}
	for i := range n {
		symbols = append(symbols, listed{uint32(0x1000 + 16*i), fmt.Sprintf("tsymbol_%d", i)})
	}
	end := uint32(0x1000 + 16*n)
	return append(symbols, listed{end, "T_etext"}, listed{end + 0x10, "D__start_notes"}, listed{end + 0x10 + uint32(len(testNotes)), "D__stop_notes"})
}

// withForm returns the symbols with offsets in the form of a kernel, in which they stood for the
// distances from the first symbol.
func withForm(name string, symbols []listed) (formed []listed) {
	if name == "percpu" {
		formed = []listed{{0, "Apercpu_start"}, {0x8000, "Apercpu_end"}}
	}
	for i, s := range symbols {
		switch name {
		case "percpu":
			s.offset = ^s.offset
		case "place":
			s.offset -= uint32(1<<20 + 4*i)
		}
		formed = append(formed, s)
	}
	return formed
}

var formNames = []string{"distances", "percpu", "place"}

// junk is what an image has before the list: among it, the digits, as in a table for UTF-16.
func junk() []byte {
	return append(bytes.Repeat([]byte("code\x00"), 1000), digits...)
}

func TestContract_10_4_OwnListIsFound(t *testing.T) {
	symbols := kernelSymbols(1000)
	for name, y := range layouts {
		for _, form := range formNames {
			want := newOwnList(withForm(form, symbols)...)
			image, _ := y.lay(junk(), want)
			got, err := findOwnList(image, binary.LittleEndian)
			require.NoError(t, err, "%s, %s", name, form)
			require.Equal(t, want, got, "%s, %s", name, form)
			text, err := got.print(anchor{"_stext", base})
			require.NoError(t, err)
			assert.Contains(t, string(text), fmt.Sprintf("%x T _etext\n", uint64(base+0xf00+16*1000)))
		}
	}
}

// TestContract_10_4_NoOtherListIsFound changes a bit of each part of a list, cuts the list off and adds a second one.
func TestContract_10_4_NoOtherListIsFound(t *testing.T) {
	_, err := findOwnList(junk(), binary.LittleEndian)
	require.ErrorIs(t, err, ErrNoList)
	for name, y := range layouts {
		for i, form := range formNames {
			list := newOwnList(withForm(form, kernelSymbols(600))...)
			image, at := y.lay(junk(), list)
			for what, place := range map[string]int{
				"number":         at["number"],
				"first length":   at["names"],
				"last length":    at["names"] + len(list.names) - len("D__stop_notes") - 1,
				"second marker":  at["markers"] + 4,
				"digit":          at["tokens"] + list.tokenAt('5'),
				"end of a token": at["tokens"] + list.tokenAt('a') - 1,
				"index":          at["index"] + 2*'z',
				"300th offset":   at["offsets"] + 4*300 - 1,
			} {
				damaged := bytes.Clone(image)
				damaged[place] ^= 0x40
				_, err := findOwnList(damaged, binary.LittleEndian)
				require.ErrorIs(t, err, ErrNoList, "%s, %s: %s", name, form, what)
			}
			needed := max(at["index"]+len(list.index), at["offsets"]+len(list.offsets))
			for end := at["tokens"]; end < needed; end += 256 {
				_, err := findOwnList(image[:end], binary.LittleEndian)
				require.ErrorIs(t, err, ErrNoList, "%s, %s: cut off at %d", name, form, end)
			}
			other := newOwnList(withForm(formNames[(i+1)%len(formNames)], kernelSymbols(7))...)
			for _, second := range []*ownList{list, other} {
				two, _ := y.lay(bytes.Clone(image), second)
				_, err = findOwnList(two, binary.LittleEndian)
				require.ErrorIs(t, err, ErrNoList, "%s, %s", name, form)
				require.ErrorContains(t, err, "several")
			}
		}
	}
}

// TestSearchIsBounded verifies that an image in which a list could begin anywhere is refused in bounded
// time: one step of the search reads one name, or one number of names.
func TestSearchIsBounded(t *testing.T) {
	names := newOwnList(kernelSymbols(10)...)
	names.names = bytes.Repeat([]byte{3, 't', 15, 0}, 1<<20) // also a number of names
	manyNames, _ := layouts["5.10"].lay(nil, names)
	tables := make([]byte, maxNames) // before the tables of tokens, numbers of no names
	for range 2 {
		tables = append(append(tables, names.tokens...), names.index...)
	}
	for what, image := range map[string][]byte{"names": manyNames, "tables of tokens": tables} {
		_, err := findOwnList(image, binary.LittleEndian)
		require.ErrorIs(t, err, ErrNoList, what)
		require.ErrorContains(t, err, "too much", what)
	}
}

// TestSearchIsLongEnough verifies that a list is found however far the search for its number goes back.
func TestSearchIsLongEnough(t *testing.T) {
	want := newOwnList(kernelSymbols(1000)...)
	for name, y := range layouts {
		image, _ := y.lay(bytes.Repeat([]byte("code\x00"), maxNames/5), want)
		got, err := findOwnList(image, binary.LittleEndian)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}

// testNotes are notes with the build id 0102030405060708.
const testNotes = "\x04\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00GNU\x00\x01\x02\x03\x04\x05\x06\x07\x08"

// otherNotes has the build id of a vDSO.
var otherNotes = strings.Replace(testNotes, "\x01\x02", "\xff\xff", 1)

// arm64Image returns a raw image, in which notes are after the code.
func arm64Image(notes string, symbols ...listed) []byte {
	image := append(make([]byte, 56), "ARM\x64"...)
	image = append(image, "Linux version 6.12.0-test (builder) (gcc) #1\n\x00"...)
	image = append(image, otherNotes...)
	image = append(image, make([]byte, 0x1000+16*1000+0x10-len(image))...)
	image, _ = layouts["6.12"].lay(append(image, notes...), newOwnList(symbols...))
	return image
}

// elfImage returns an ELF file without symbols.
func elfImage(t testing.TB, machine elf.Machine, symbols ...listed) []byte {
	t.Helper()
	const headerLen = 64 // of the file, and of a section
	image, err := binary.Append(nil, binary.LittleEndian, elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: headerLen, Shentsize: headerLen, Shnum: 2, Shoff: headerLen,
	})
	require.NoError(t, err)
	image, err = binary.Append(image, binary.LittleEndian, []elf.Section64{
		{}, {Type: uint32(elf.SHT_NOTE), Off: 3 * headerLen, Size: uint64(len(testNotes))},
	})
	require.NoError(t, err)
	image = append(image, testNotes+otherNotes+"Linux version 6.12.0-test (builder)\x00Linux version 6.12.0-test (host)\x00"...)
	image, _ = layouts["6.1"].lay(image, newOwnList(withForm("percpu", symbols)...))
	return image
}

func TestContract_10_4_SymbolsOfImage(t *testing.T) {
	for arch, image := range map[string][]byte{
		"arm64": arm64Image(testNotes, kernelSymbols(1000)...),
		"amd64": elfImage(t, elf.EM_X86_64, kernelSymbols(1000)...),
	} {
		info, symbols, err := SymbolsOfImage(image)
		require.NoError(t, err, arch)
		end := uint32(0x1000 + 16*1000)
		assert.Equal(t, pack.Info{
			BuildID: "0102030405060708", Name: "vmlinux", Arch: arch, Release: "6.12.0-test", Extent: pack.Range{End: end},
		}, info)
		require.Len(t, symbols, 1002)
		assert.Equal(t, pack.Symbol{Range: pack.Range{Start: 0x100, End: 0x200}, Name: "alias"}, symbols[0])
		assert.Equal(t, pack.Symbol{Range: pack.Range{Start: end - 16, End: end}, Name: "symbol_999"}, symbols[1001])
	}
}

func TestImagesWithoutWhatAPackNeedsAreRefused(t *testing.T) {
	symbols := kernelSymbols(1000)
	withoutData, withoutEnd, withoutStart := symbols[:len(symbols)-2], symbols[:len(symbols)-3], slices.Clone(symbols)
	withoutStart[1].text = "tfirst"
	twoReleases := append(elfImage(t, elf.EM_X86_64, symbols...), "Linux version 6.12.1 (builder)"...)
	for name, test := range map[string]struct {
		image []byte
		want  error
	}{
		"no kernel":                   {[]byte("kernel"), bootimage.ErrNotImage},
		"no list":                     {append(elfImage(t, elf.EM_X86_64, symbols...)[:0x1000:0x1000], junk()...), ErrNoList},
		"damaged ELF":                 {elfImage(t, elf.EM_X86_64)[:80], nil},
		"of 32 bits":                  {elfImage(t, elf.EM_386, symbols...), errors.ErrUnsupported},
		"without CONFIG_KALLSYMS_ALL": {arm64Image(testNotes, withoutData...), buildid.ErrNotFound},
		"other notes":                 {arm64Image(strings.Replace(testNotes, "GNU", "Xen", 1), symbols...), buildid.ErrNotFound},
		"without _stext":              {elfImage(t, elf.EM_X86_64, withoutStart...), errOwnList},
		"without the end of the text": {elfImage(t, elf.EM_X86_64, withoutEnd...), kallsyms.ErrNoText},
		"notes beyond the end":        {arm64Image(testNotes, append(symbols[:len(symbols)-1:len(symbols)-1], listed{1 << 30, "D__stop_notes"})...), buildid.ErrNotFound},
	} {
		_, _, err := SymbolsOfImage(test.image)
		require.Error(t, err, name)
		if test.want != nil {
			require.ErrorIs(t, err, test.want, name)
		}
	}
	info, _, err := SymbolsOfImage(twoReleases)
	require.NoError(t, err)
	assert.Empty(t, info.Release)
}

// FuzzFindOwnList verifies that any image results in an error or in a list that the kernel would read the
// same way. The image is built from a few bytes, and one byte is then changed: the fuzzer alone would not
// find 256 tokens and their index.
func FuzzFindOwnList(f *testing.F) {
	versions := slices.Sorted(maps.Keys(layouts))
	for version := range versions {
		for _, form := range formNames {
			l := newOwnList(withForm(form, kernelSymbols(2))...)
			f.Add(uint8(version), uint16(l.num), l.names, l.offsets, uint16(0), uint8(0))
			f.Add(uint8(version), uint16(l.num), l.names, l.offsets, uint16(1100), uint8(1))
		}
	}
	f.Fuzz(func(t *testing.T, version uint8, num uint16, names, offsets []byte, place uint16, change uint8) {
		l := newOwnList()
		l.num, l.names, l.offsets = int(num), names, offsets
		image, _ := layouts[versions[int(version)%len(versions)]].lay(nil, l)
		image[int(place)%len(image)] ^= change
		l, err := findOwnList(image, binary.LittleEndian)
		if err != nil {
			return
		}
		form, err := l.form()
		if err != nil {
			t.Fatalf("a list without addresses: %v", err)
		}
		n, last := 0, uint64(0)
		err = l.each(func(i int, _ byte, _ []byte) {
			addr := form.at(l, 1<<63, i)
			if n++; addr < last {
				t.Fatalf("symbol %d is at %#x, after %#x", i, addr, last)
			}
			last = addr
		})
		if err == nil && n != l.num {
			t.Fatalf("%d symbols of %d", n, l.num)
		}
	})
}
