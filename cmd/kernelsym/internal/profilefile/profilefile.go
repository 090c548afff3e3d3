// SPDX-License-Identifier: Apache-2.0

// Package profilefile reads profiles that the collector's file exporter wrote, and merges them into
// a profile for pprof.
package profilefile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
)

var (
	// ErrFormat is returned for a file that has none of the file exporter's formats.
	ErrFormat = errors.New("kernelsym reads what the collector's file exporter writes: JSON or protobuf, " +
		"plain or compressed with gzip or zstd")
	// ErrDamaged is returned if a message after the first cannot be read.
	ErrDamaged = errors.New("the file is damaged here")
)

var (
	// zstdMagic begins each zstd frame (RFC 8878, section 3.1.1).
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	// gzipMagic begins a gzip file (RFC 1952, section 2.3.1).
	gzipMagic = []byte{0x1f, 0x8b}
)

// maxMessage is the largest plausible length of a message: collectors accept much smaller ones.
const maxMessage = 256 << 20

// Read reads messages in any of the file exporter's formats: JSON with a message a line, or
// messages with a four-byte big-endian length before each, which are binary protobuf or compressed
// with zstd. The whole file may also be compressed with zstd or gzip. Read calls visit for each
// message, with the names that are written in it, and stops at the first error. If the last message is cut off because the collector is
// still writing, the error wraps io.ErrUnexpectedEOF.
func Read(r io.Reader, visit func(*rewrite.Named) error) error {
	buffered := bufio.NewReaderSize(r, 1<<16)
	head, err := buffered.Peek(headSize)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case len(head) == 0:
		return nil
	case bytes.HasPrefix(head, zstdMagic):
		z, err := zstd.NewReader(buffered)
		if err != nil {
			return err
		}
		defer z.Close()
		return Read(z, visit)
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		return Read(z, visit)
	}
	head = bytes.Clone(head)
	if head[0] == '{' {
		return readAll(head, jsonMessages(buffered), visit)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxMessage))
	if err != nil {
		return err
	}
	defer z.Close()
	return readAll(head, binaryMessages(buffered, z), visit)
}

// readAll visits the messages that next returns until it returns io.EOF. head is the beginning of
// the file.
func readAll(head []byte, next func() (pprofile.Profiles, error), visit func(*rewrite.Named) error) error {
	for n := 1; ; n++ {
		pd, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case n == 1 && errors.Is(err, ErrFormat):
			return err
		case n == 1 && (errors.Is(err, ErrDamaged) || errors.Is(err, io.ErrUnexpectedEOF)):
			return firstError(head, err)
		case err == nil:
			err = visitAsWritten(pd, visit)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", n, err)
		}
	}
}

func visitAsWritten(pd pprofile.Profiles, visit func(*rewrite.Named) error) error {
	n, err := rewrite.AsWritten(pd)
	if err != nil {
		return err
	}
	return visit(n)
}

// firstError returns the error for a file whose first message cannot be read. It reports the file
// as cut off only if it does not recognize another kind of file.
func firstError(head []byte, err error) error {
	cut := errors.Is(err, io.ErrUnexpectedEOF)
	what := describe(head)
	switch {
	case cut && (what == "" || head[0] == '{'):
		return err
	case errors.Is(err, errLines):
		what = "JSON with a message on several lines (jq -c . puts it on one)"
	case head[0] == '{':
		what = "not JSON of profiles"
	case what == "":
		what = "binary data of an unknown kind"
	}
	return fmt.Errorf("this is %s; %w", what, ErrFormat)
}

// jsonMessages returns a function that returns the next message of a sequence of lines.
func jsonMessages(r *bufio.Reader) func() (pprofile.Profiles, error) {
	return func() (pprofile.Profiles, error) {
		for {
			line, err := readLine(r)
			if err != nil && !errors.Is(err, io.EOF) {
				return pprofile.Profiles{}, err
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				return decodeJSON(line, err != nil)
			}
			if err != nil {
				return pprofile.Profiles{}, err
			}
		}
	}
}

// errLong is returned for a line that is longer than a message can be.
var errLong = fmt.Errorf("its line is longer than %d bytes", maxMessage)

// readLine reads a line and its end. The error is io.EOF if the input ends before that.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		switch line = append(line, part...); {
		case len(line) > maxMessage:
			return nil, errLong
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// errLines is returned for a line that ends within a message.
var errLines = fmt.Errorf("%w: the message does not end on its line", ErrDamaged)

// decodeJSON decodes a line, which may be cut off if it is the last one.
func decodeJSON(line []byte, last bool) (pprofile.Profiles, error) {
	pd, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(line)
	if err == nil && pd.ResourceProfiles().Len() == 0 {
		return pd, checkKeys(line)
	}
	if err == nil {
		return pd, nil
	}
	var value json.RawMessage
	syntax := json.NewDecoder(bytes.NewReader(line)).Decode(&value)
	switch {
	case errors.Is(syntax, io.ErrUnexpectedEOF) && last:
		return pd, io.ErrUnexpectedEOF
	case errors.Is(syntax, io.ErrUnexpectedEOF):
		return pd, errLines
	case syntax != nil:
		err = syntax
	}
	return pd, fmt.Errorf("%w: %v", ErrDamaged, err) //nolint:errorlint // callers have no use for the wrapped error
}

// binaryMessages returns a function that returns the next message of a sequence of lengths and
// messages.
func binaryMessages(r io.Reader, z *zstd.Decoder) func() (pprofile.Profiles, error) {
	return func() (pprofile.Profiles, error) {
		message, err := readMessage(r)
		if err == nil && bytes.HasPrefix(message, zstdMagic) {
			if message, err = z.DecodeAll(message, nil); err != nil {
				err = fmt.Errorf("%w: %v", ErrDamaged, err) //nolint:errorlint // its io.ErrUnexpectedEOF is not this file's
			}
		}
		if err != nil {
			return pprofile.Profiles{}, err
		}
		if bytes.HasPrefix(message, []byte("{")) {
			return decodeJSON(message, false)
		}
		pd, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(message)
		if err != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, err) //nolint:errorlint // for the same reason
		}
		return pd, err
	}
}

// readMessage reads a length and a message of that length. The error is io.EOF only if the input
// ends where a length would begin.
func readMessage(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxMessage {
		return nil, fmt.Errorf("%w: it says that a message of %d bytes follows", ErrDamaged, size)
	}
	message, err := io.ReadAll(io.LimitReader(r, int64(size))) // grows only as bytes arrive
	if err == nil && len(message) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	return message, err
}
