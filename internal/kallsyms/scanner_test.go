// SPDX-License-Identifier: Apache-2.0

package kallsyms

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

type scanned struct {
	addr         uint64
	typ          byte
	name, module string
}

func scanAll(r io.Reader) (lines []scanned, err error) {
	s := NewScanner(r)
	var line Line
	for {
		if err := s.Scan(&line); err != nil {
			return lines, err
		}
		lines = append(lines, scanned{line.Addr, line.Type, string(line.Name), string(line.Module)})
	}
}

func TestScan(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	long := strings.Repeat("n", 511)
	for _, tt := range []struct {
		name, input string
		want        []scanned
	}{
		{"nothing", "", nil},
		{"core", "ffffffff81000000 T _text\n", []scanned{{0xffffffff81000000, 'T', "_text", ""}}},
		{"module", "ffffffffc0201000 t f\t[ext4]\n", []scanned{{0xffffffffc0201000, 't', "f", "ext4"}}},
		{"no newline at the end", "0000000000000001 t f", []scanned{{1, 't', "f", ""}}},
		{"CRLF", "0000000000000001 t f\r\n0000000000000002 t g\t[m]\r\n", []scanned{{1, 't', "f", ""}, {2, 't', "g", "m"}}},
		{"upper half changes", "ffffffff00000001 t f\n0000000100000002 t g\n", []scanned{{0xffffffff00000001, 't', "f", ""}, {0x100000002, 't', "g", ""}}},
		{"capital digits", "FFFFFFFFABCDEF09 t f\n", []scanned{{0xffffffffabcdef09, 't', "f", ""}}},
		{"32-bit addresses", "c0008000 T _text\n", []scanned{{0xc0008000, 'T', "_text", ""}}},
		{"longest name", "ffffffffffffffff t " + long + "\n", []scanned{{1<<64 - 1, 't', long, ""}}},
		{"name that ends in a bracket", "0000000000000001 t f\t[m]\n0000000000000002 t g\n", []scanned{{1, 't', "f", "m"}, {2, 't', "g", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{
				strings.NewReader(tt.input),
				iotest.OneByteReader(strings.NewReader(tt.input)),
				iotest.DataErrReader(strings.NewReader(tt.input)),
			} {
				got, err := scanAll(r)
				assert.Equal(t, io.EOF, err)
				assert.Equal(t, tt.want, got)
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	for name, input := range map[string]string{
		"empty line":            "\n",
		"address only":          "ffffffff81000000\n",
		"address and type":      "ffffffff81000000 T\n",
		"no name":               "ffffffff81000000 T \n",
		"long type":             "ffffffff81000000 TT name\n",
		"more than 64 bits":     "1ffffffff81000000 T name\n",
		"more than 64 bits, 0s": "0ffffffff81000000 T name\n",
		"not hex, upper half":   "fffffffg81000000 T name\n",
		"not hex, lower half":   "ffffffff8100000/ T name\n",
		"not hex, short":        "xyz T name\n",
		"not hex, below 0":      "ffffffff8100 000 T name\n",
		"no address":            " T name\n",
		"bytes":                 "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00 T name\n",
		"no module in brackets": "ffffffff81000000 T name\t[]\n",
		"module without tab":    "ffffffff81000000 T name [m]\n",
		"line without end":      strings.Repeat("f", 3*bufLen),
		"very long line":        strings.Repeat("f", maxLine+1) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := scanAll(strings.NewReader("0000000000000001 t f\n" + input))
			require.ErrorIs(t, err, ErrSyntax)
			require.ErrorContains(t, err, "line 2")
			assert.Len(t, lines, 1)
		})
	}
}

func TestScanPassesOnReadErrors(t *testing.T) {
	broken := errors.New("broken")
	lines, err := scanAll(io.MultiReader(strings.NewReader("0000000000000001 t f\n0000"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	assert.Len(t, lines, 1)

	_, err = scanAll(emptyReader{})
	assert.ErrorIs(t, err, io.ErrNoProgress)
}

// emptyReader never returns any data.
type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

func TestSkipToModules(t *testing.T) {
	core := strings.Repeat("0000000000000001 t a_symbol_of_the_core\n", 500) + "0000000000000001 t with]bracket\n" +
		strings.Repeat("0000000000000001 t a_symbol_of_the_core\r\n", 499)
	for name, r := range map[string]io.Reader{
		"whole":      strings.NewReader(core + "0000000000000002 t g\t[m]\n0000000000000003 t h\t[m]\n"),
		"bytes":      iotest.OneByteReader(strings.NewReader(core + "0000000000000002 t g\t[m]\n0000000000000003 t h\t[m]\n")),
		"no newline": strings.NewReader(core + "0000000000000002 t g\t[m]\n0000000000000003 t h\t[m]"),
	} {
		t.Run(name, func(t *testing.T) {
			s := NewScanner(r)
			require.NoError(t, s.SkipToModules())
			var line Line
			require.NoError(t, s.Scan(&line))
			assert.Equal(t, "g", string(line.Name))
			require.NoError(t, s.Scan(&line))
			assert.Equal(t, "h", string(line.Name))
			assert.Equal(t, 1002, s.n, "lines")
			assert.Equal(t, io.EOF, s.Scan(&line))
		})
	}
	assert.Equal(t, io.EOF, NewScanner(strings.NewReader(core)).SkipToModules())
}

func TestParseHex8(t *testing.T) {
	digits := func(s string) (d uint64) {
		for _, c := range []byte(s) {
			d = d<<8 | uint64(c)
		}
		return d
	}
	for s, want := range map[string]uint32{
		"00000000": 0, "ffffffff": 0xffffffff, "FFFFFFFF": 0xffffffff, "12345678": 0x12345678,
		"9abcdef0": 0x9abcdef0, "09afAF90": 0x09afaf90,
	} {
		got, ok := parseHex8(digits(s))
		assert.True(t, ok, s)
		assert.Equal(t, want, got, s)
	}
	// Every byte value at every position is either a digit or refused.
	for place := range 8 {
		for c := range 256 {
			s := []byte("00000000")
			s[place] = byte(c)
			_, ok := parseHex8(digits(string(s)))
			assert.Equal(t, strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) && c < 128, ok, "%q", s)
		}
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	s := NewScanner(strings.NewReader(strings.Repeat("ffffffff81000000 T a_name\n", 5000)))
	var line Line
	assert.Zero(t, testing.AllocsPerRun(4000, func() {
		if s.Scan(&line) != nil {
			t.Fail()
		}
	}))
}
