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

// Read reads messages in any of the file exporter's formats: JSON with one or more messages a line, or
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

// jsonMessages returns a function that returns the next message of a sequence of lines. A line can have several.
func jsonMessages(r *bufio.Reader) func() (pprofile.Profiles, error) {
	var rest []byte // of the line that was read last
	var end error   // why there is no further line
	return func() (pprofile.Profiles, error) {
		for len(rest) == 0 {
			if end != nil {
				return pprofile.Profiles{}, end
			}
			var line []byte
			if line, end = readLine(r); end != nil && !errors.Is(end, io.EOF) {
				return pprofile.Profiles{}, end
			}
			rest = bytes.TrimSpace(line)
		}
		value, more, err := firstValue(rest)
		switch cut := errors.Is(err, io.ErrUnexpectedEOF); {
		case cut && end == nil:
			err = errLines
		case !cut && err != nil:
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err != nil {
			return pprofile.Profiles{}, err
		}
		rest = more
		return decodeJSON(value)
	}
}

// firstValue returns the first JSON value of a line, and what follows it.
func firstValue(line []byte) (value, rest []byte, err error) {
	if json.Valid(line) {
		return line, nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(line))
	err = d.Decode((*json.RawMessage)(&value))
	return value, bytes.TrimSpace(line[d.InputOffset():]), err
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

// decodeJSON decodes a JSON value. What follows a value would be ignored.
func decodeJSON(value []byte) (pprofile.Profiles, error) {
	pd, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(value)
	switch {
	case err != nil:
		return pd, fmt.Errorf("%w: %v", ErrDamaged, err) //nolint:errorlint // callers have no use for the wrapped error
	case pd.ResourceProfiles().Len() == 0:
		return pd, checkKeys(value)
	}
	return pd, nil
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
			if !json.Valid(message) {
				return pprofile.Profiles{}, fmt.Errorf("%w: the message is not one JSON value", ErrDamaged)
			}
			return decodeJSON(message)
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
