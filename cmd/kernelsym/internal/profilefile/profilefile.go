// Package profilefile reads the profiles that the collector's file exporter
// wrote, and makes a profile for pprof of them.
package profilefile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// ErrFormat says that a file is none of the file exporter's formats.
var ErrFormat = errors.New("not a file of profiles, as the collector's file exporter writes them")

// zstdMagic begins each frame of zstd (RFC 8878, section 3.1.1).
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// maxMessage bounds the length that is believed of a message.
const maxMessage = 1 << 30

// Read reads messages in any of the file exporter's formats: JSON, a message a
// line; and those with a length of four bytes, big-endian, before each message,
// which is binary protobuf or compressed with zstd. The whole file may be
// compressed, too. It calls visit for each message, and ends with its first
// error. A file whose last message is cut off, as where the collector still
// writes, gives an error that wraps io.ErrUnexpectedEOF.
func Read(r io.Reader, visit func(pprofile.Profiles) error) error {
	buffered := bufio.NewReaderSize(r, 1<<16)
	start, err := buffered.Peek(len(zstdMagic))
	switch {
	case errors.Is(err, io.EOF) && len(start) == 0:
		return nil
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case bytes.Equal(start, zstdMagic):
		z, err := zstd.NewReader(buffered)
		if err != nil {
			return err
		}
		defer z.Close()
		return Read(z, visit)
	case start[0] == '{':
		return readLines(buffered, visit)
	}
	return readMessages(buffered, visit)
}

func readLines(r *bufio.Reader, visit func(pprofile.Profiles) error) error {
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return fmt.Errorf("message %d: %w", n, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			err := decode(line, visit)
			if last && errors.Is(err, ErrFormat) {
				err = fmt.Errorf("%w: %w", err, io.ErrUnexpectedEOF)
			}
			if err != nil {
				return fmt.Errorf("message %d: %w", n, err)
			}
		}
		if last {
			return nil
		}
	}
}

func readMessages(r io.Reader, visit func(pprofile.Profiles) error) error {
	z, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxMessage))
	if err != nil {
		return err
	}
	defer z.Close()
	for n := 1; ; n++ {
		message, err := readMessage(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && bytes.HasPrefix(message, zstdMagic) {
			if message, err = z.DecodeAll(message, nil); err != nil {
				err = fmt.Errorf("%w: %w", ErrFormat, err)
			}
		}
		if err == nil {
			err = decode(message, visit)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", n, err)
		}
	}
}

// readMessage reads a length and the message that has it. The error is io.EOF
// only where a length would begin.
func readMessage(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	} else if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxMessage {
		return nil, fmt.Errorf("%w: length %d", ErrFormat, size)
	}
	message, err := io.ReadAll(io.LimitReader(r, int64(size))) // grows as there are bytes
	if err == nil && len(message) < int(size) {
		err = fmt.Errorf("%w: %w", ErrFormat, io.ErrUnexpectedEOF)
	}
	return message, err
}

// decode decodes a message of JSON or protobuf.
func decode(message []byte, visit func(pprofile.Profiles) error) error {
	var pd pprofile.Profiles
	var err error
	if bytes.HasPrefix(message, []byte("{")) {
		pd, err = (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(message)
	} else {
		pd, err = (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(message)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return visit(pd)
}
