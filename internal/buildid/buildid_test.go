// SPDX-License-Identifier: Apache-2.0

package buildid

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// note returns a note in the format in which the kernel exposes it.
func note(owner string, typ uint32, desc string) string {
	b := binary.NativeEndian.AppendUint32(nil, uint32(len(owner)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.NativeEndian.AppendUint32(b, typ)
	for _, field := range []string{owner, desc} {
		b = append(b, field...)
		b = append(b, make([]byte, -len(field)&3)...)
	}
	return string(b)
}

const id = "\x4a\x5a\x9b\x0a\xff\xb6\x6c\x43\x7a\xbc\xd4\x55\xd2\x73\x8a\xf8\x79\x98\x5f\xa9"

func TestParse(t *testing.T) {
	gnu := note("GNU\x00", 3, id)
	for name, notes := range map[string]string{
		"alone":             gnu,
		"first":             gnu + note("Linux\x00", 0x101, "\x00\x00\x00\x00"),
		"after others":      note("Linux\x00", 0x101, "abcde") + note("Xen\x00", 3, "12345678") + gnu,
		"behind an empty":   note("GNU\x00", 3, "") + gnu,
		"behind too long":   note("GNU\x00", 3, strings.Repeat("x", maxID+1)) + gnu,
		"rest is malformed": gnu + "garbage",
	} {
		got, err := Parse(strings.NewReader(notes))
		require.NoError(t, err, name)
		assert.Equal(t, "4a5a9b0affb66c437abcd455d2738af879985fa9", got, name)
	}
	// The padding of the last note may be missing.
	got, err := Parse(strings.NewReader(strings.TrimRight(note("GNU\x00", 3, "abcde"), "\x00")))
	require.NoError(t, err)
	assert.Equal(t, "6162636465", got)
}

func TestOfKernel(t *testing.T) {
	sysfs := t.TempDir()
	_, err := OfKernel(sysfs)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.Mkdir(filepath.Join(sysfs, "kernel"), 0o755))
	file := filepath.Join(sysfs, "kernel", "notes")
	require.NoError(t, os.WriteFile(file, []byte(note("Xen\x00", 3, "12345678")), 0o600))
	_, err = OfKernel(sysfs)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, file)
	require.NoError(t, os.WriteFile(file, []byte(note("GNU\x00", 3, id)), 0o600))
	got, err := OfKernel(sysfs)
	require.NoError(t, err)
	assert.Equal(t, "4a5a9b0affb66c437abcd455d2738af879985fa9", got)
}

func TestParseErrors(t *testing.T) {
	broken := errors.New("broken")
	huge := note("GNU\x00", 3, id)
	huge = "\xff\xff\xff\xff" + huge[4:]
	for _, tt := range []struct {
		name string
		r    io.Reader
		want error
	}{
		{"empty", strings.NewReader(""), ErrNotFound},
		{"others only", strings.NewReader(note("Linux\x00", 3, id) + note("GNU\x00", 1, id)), ErrNotFound},
		{"cut in the header", strings.NewReader(note("GNU\x00", 3, id)[:7]), io.ErrUnexpectedEOF},
		{"cut in the name", strings.NewReader(note("GNU\x00", 3, id)[:14]), io.ErrUnexpectedEOF},
		{"cut in the id", strings.NewReader(note("GNU\x00", 3, id)[:20]), io.ErrUnexpectedEOF},
		{"impossible length", strings.NewReader(huge), io.ErrUnexpectedEOF},
		{"reader", iotest.ErrReader(broken), broken},
	} {
		_, err := Parse(tt.r)
		assert.ErrorIs(t, err, tt.want, tt.name)
	}
}

// TestContract_4_2_FileID expects the ID that the OTel eBPF profiler gives the kernel with this
// build id.
func TestContract_4_2_FileID(t *testing.T) {
	assert.Equal(t, "f99945f128008c497a95ba7df2d509b6", FileID("4a5a9b0affb66c437abcd455d2738af879985fa9"))
	assert.Equal(t, FileID("abcd"), FileID("ABCD"))
	assert.Empty(t, FileID(""))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(note("Linux\x00", 0x101, "abcde") + note("GNU\x00", 3, id)))
	f.Add([]byte(note("GNU\x00", 3, id)[:14]))
	f.Fuzz(func(t *testing.T, notes []byte) {
		got, err := Parse(bytes.NewReader(notes))
		if (got == "") != (err != nil) {
			t.Fatalf("%q, %v", got, err)
		}
		if len(got) > 2*maxID {
			t.Fatalf("%d digits", len(got))
		}
	})
}
