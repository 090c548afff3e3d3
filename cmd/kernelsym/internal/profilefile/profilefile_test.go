// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	vmlinux = &rewritetest.Mapping{File: "vmlinux", Limit: 0x1000, BuildID: "ab12"}
	libc    = &rewritetest.Mapping{File: "libc.so.6", Start: 0x7f0000000000, Limit: 0x7f0000001000}

	read = rewritetest.Frame{
		Address: 0x10, Mapping: vmlinux, Type: "kernel", Lines: []rewritetest.Line{{Name: "vfs_read", System: "vfs_read"}},
	}
	syscall = rewritetest.Frame{
		Address: 0x20, Mapping: vmlinux, Type: "kernel", Lines: []rewritetest.Line{{Name: "do_syscall_64", System: "do_syscall_64"}},
	}
	padding = rewritetest.Frame{Address: 0xffffffff81000030, Type: "kernel"}
	user    = rewritetest.Frame{Address: 0x7f0000000123, Mapping: libc, Type: "native"}
)

// message returns a message of three samples. Two of them have the same stack.
func message() pprofile.Profiles {
	return rewritetest.NewMessage().Profile(nil, "scope").
		Sample(read, syscall, user).Sample(padding, syscall).Sample(read, syscall, user).Profiles
}

// formats returns files of two messages each, in the file exporter's formats.
func formats(t testing.TB) map[string][]byte {
	t.Helper()
	json, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(message())
	require.NoError(t, err)
	proto, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(message())
	require.NoError(t, err)
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer func() { _ = encoder.Close() }()
	compressed := func(b []byte) []byte { return encoder.EncodeAll(b, nil) }
	twice := func(message []byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(message)))
		return bytes.Repeat(append(b, message...), 2)
	}
	lines := bytes.Repeat(append(json, '\n'), 2)
	return map[string][]byte{
		"json":                  lines,
		"json without end":      lines[:len(lines)-1],
		"json on one line":      bytes.ReplaceAll(lines, []byte("\n"), nil),
		"json, spaces between":  bytes.ReplaceAll(lines, []byte("\n"), []byte(" \t\r ")),
		"json, CRLF":            bytes.ReplaceAll(lines, []byte("\n"), []byte("\r\n\r\n")),
		"json, zstd a message":  twice(compressed(json)),
		"json, zstd":            compressed(lines),
		"proto":                 twice(proto),
		"proto, zstd a message": twice(compressed(proto)),
		"proto, zstd":           compressed(twice(proto)),
		"json, gzip":            gzipped(t, lines),
		"proto, gzip":           gzipped(t, twice(proto)),
	}
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	require.NoError(t, errors.Join(err, w.Close()))
	return out.Bytes()
}

func TestReadTakesEveryFormat(t *testing.T) {
	for name, file := range formats(t) {
		t.Run(name, func(t *testing.T) {
			messages := 0
			require.NoError(t, Read(bytes.NewReader(file), func(n *rewrite.Named) error {
				messages++
				assert.Equal(t, rewritetest.Samples(message()), rewritetest.Samples(n.Message().Profiles))
				return nil
			}))
			assert.Equal(t, 2, messages)
		})
	}
	require.NoError(t, Read(strings.NewReader(""), nil), "a file without messages")
}

// TestReadSaysWhatAFileIs verifies that the error describes a file that has no profiles.
func TestReadSaysWhatAFileIs(t *testing.T) {
	proto, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(message())
	require.NoError(t, err)
	resourceFirst := append([]byte{0x0a, 0x02, 0x12, 0x00}, proto...)
	m := NewMerger("")
	m.Add(written(message()))
	var pprof, pprofGzip bytes.Buffer
	require.NoError(t, m.Profile().WriteUncompressed(&pprof))
	require.NoError(t, m.Profile().Write(&pprofGzip))
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"text":                    {[]byte("# profiles\n\tä\n"), "this is text"},
		"long text":               {[]byte(strings.Repeat("é", headSize)), "this is text"},
		"text, gzip":              {gzipped(t, []byte("\n\nprofiles\n")), "this is text"},
		"json of metrics":         {[]byte(`{"resourceMetrics":[]}`), `JSON without profiles, with the key "resourceMetrics"`},
		"json of something":       {[]byte(`{"b": {}, "a": 1}`), `with the key "a"`},
		"json on several lines":   {[]byte("{\n\"a\": 1}\n"), "JSON with a message on several lines"},
		"json of another shape":   {[]byte(`{"resourceProfiles":7}`), "this is not JSON of profiles"},
		"no json":                 {[]byte("{]"), "this is not JSON of profiles"},
		"message without length":  {proto, "a protobuf message without a length before it"},
		"resource without length": {resourceFirst, "a protobuf message without a length before it"},
		"pprof":                   {pprof.Bytes(), "a pprof profile"},
		"pprof, gzip":             {pprofGzip.Bytes(), "a pprof profile"},
		"perf.data":               {[]byte("PERFILE2\x68\x00"), "a file of perf record"},
		"xz":                      {[]byte("\xfd7zXZ\x00\x00\x04"), "compressed with xz"},
		"bytes":                   {[]byte{0xff, 0xff, 0xff, 0xff, 1}, "binary data of an unknown kind"},
		"message not proto":       {[]byte{0, 0, 0, 2, 0xff, 0xff}, "binary data of an unknown kind"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Read(bytes.NewReader(tt.file), func(*rewrite.Named) error { return nil })
			require.ErrorIs(t, err, ErrFormat)
			require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// TestReadErrors verifies the errors of files that contain more than profiles.
func TestReadErrors(t *testing.T) {
	all := formats(t)
	for name, file := range map[string][]byte{
		"json":   append(bytes.Clone(all["json"]), "{]\n"...),
		"lines":  append(bytes.Clone(all["json"]), "{\n}\n"...),
		"behind": append(bytes.Clone(all["json on one line"]), " garbage {{{"...),
		"NUL":    append(append(bytes.Clone(all["json on one line"]), 0), all["json"]...),
		"length": append(bytes.Clone(all["proto"]), 0xff, 0xff, 0xff, 0xff, 1),
		"proto":  append(bytes.Clone(all["proto"]), 0, 0, 0, 2, 0xff, 0xff),
		"zstd":   append(bytes.Clone(all["proto"]), 0, 0, 0, 6, 0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff),
		"second": append(append(bytes.Clone(all["proto"]), 0, 0, 0, 27), `{"resourceProfiles":[{}]}{}`...),
		"inner":  append(bytes.Clone(all["proto"]), 0, 0, 0, 1, '{'),
	} {
		t.Run(name, func(t *testing.T) {
			messages := 0
			err := Read(bytes.NewReader(file), func(*rewrite.Named) error { messages++; return nil })
			require.ErrorIs(t, err, ErrDamaged)
			require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
			require.ErrorContains(t, err, "message 3: ")
			assert.Equal(t, 2, messages)
		})
	}
	t.Run("visitor", func(t *testing.T) {
		stop := errors.New("enough")
		calls := 0
		err := Read(bytes.NewReader(all["proto"]), func(*rewrite.Named) error { calls++; return stop })
		require.ErrorIs(t, err, stop)
		assert.Equal(t, 1, calls)
	})
}

// TestReadOfAFileThatIsCutOff cuts each format off in its second message, and verifies that the
// first one is still read.
func TestReadOfAFileThatIsCutOff(t *testing.T) {
	for name, file := range formats(t) {
		if strings.HasSuffix(name, ", zstd") || strings.HasSuffix(name, ", gzip") {
			continue // one block has both messages
		}
		t.Run(name, func(t *testing.T) {
			for _, cut := range []int{10, len(file)/2 - 10} {
				messages := 0
				err := Read(bytes.NewReader(file[:len(file)-cut]), func(*rewrite.Named) error { messages++; return nil })
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				assert.Equal(t, 1, messages)
			}
		})
	}
	for name, cut := range map[string]int{"json, zstd": 3, "json, gzip": 20, "json": len(formats(t)["json"]) - 1, "proto": len(formats(t)["proto"]) - 1} {
		t.Run(name, func(t *testing.T) {
			file := formats(t)[name]
			err := Read(bytes.NewReader(file[:len(file)-cut]), func(*rewrite.Named) error { return nil })
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		})
	}
}

// endless is input that consists of one byte.
type endless byte

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e)
	}
	return len(b), nil
}

// TestReadOfALineWithoutEnd verifies that a line does not take all memory.
func TestReadOfALineWithoutEnd(t *testing.T) {
	err := Read(io.MultiReader(strings.NewReader("{"), endless(' ')), func(*rewrite.Named) error { return nil })
	require.ErrorContains(t, err, "message 1: its line is longer than 268435456 bytes")
}

// FuzzRead reads arbitrary bytes as a file, and processes them as the commands do.
func FuzzRead(f *testing.F) {
	for _, file := range formats(f) {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		merger := NewMerger("")
		_ = Read(bytes.NewReader(file), func(n *rewrite.Named) error {
			merger.Add(n)
			return nil
		})
		if len(merger.Profile().Sample) > 0 {
			require.NoError(t, merger.Profile().CheckValid())
		}
	})
}
