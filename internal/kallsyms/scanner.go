// SPDX-License-Identifier: Apache-2.0

package kallsyms

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// A Line is one line of the list: "ADDRESS TYPE NAME" or
// "ADDRESS TYPE NAME\t[MODULE]".
type Line struct {
	Addr   uint64
	Type   byte   // as in nm(1)
	Name   []byte // valid until the next call to Scan
	Module []byte // without the brackets; empty for the core kernel; valid as long as Name
}

// ErrSyntax says that the input is not a list of kernel symbols.
var ErrSyntax = errors.New("not a line of kallsyms")

// maxLine bounds the length of a line. The kernel's longest line has an address of 16 digits, a
// name of 511 bytes and a module name of 55 bytes.
const maxLine = 4096

// bufLen is the size of a Scanner's buffer. The kernel returns at most one page per read.
const bufLen = 2*maxLine + 8192

// A Scanner reads a list of kernel symbols line by line.
//
// It accepts lines that end in "\r\n", and a last line without a line break. It has a single
// buffer and does not allocate memory per line.
type Scanner struct {
	r    io.Reader
	buf  []byte
	rest []byte // the part of buf that is not scanned yet
	err  error  // the error that r returned
	n    int    // lines read

	unread []byte // a line to return again, or nil

	// The upper eight digits of the last address, and their value. They change rarely.
	upperDigits uint64
	upper       uint64
}

// NewScanner returns a Scanner that reads from r.
func NewScanner(r io.Reader) *Scanner {
	return &Scanner{
		r:           r,
		buf:         make([]byte, bufLen),
		upperDigits: binary.BigEndian.Uint64([]byte("00000000")),
	}
}

// Scan reads the next line. At the end of the input it returns io.EOF. Any other error comes
// from the reader, or wraps ErrSyntax and names the line.
func (s *Scanner) Scan(line *Line) error {
	raw, err := s.next()
	if err != nil {
		return err
	}
	s.n++
	whole := raw
	line.Module = nil
	if hasModule(raw) {
		if raw, line.Module = cutModule(raw); line.Module == nil {
			return s.syntaxError(whole)
		}
	}
	// The kernel writes "%px %c %s\t[%s]\n" (s_show in kernel/kallsyms.c).
	digits := 16
	if len(raw) <= digits || raw[digits] != ' ' {
		digits = bytes.IndexByte(raw, ' ')
	}
	if digits > 0 && len(raw) >= digits+len(" T x") && raw[digits+2] == ' ' {
		line.Type = raw[digits+1]
		line.Name = raw[digits+3:]
		var ok bool
		if line.Addr, ok = s.parseAddr(raw[:digits]); ok {
			return nil
		}
	}
	return s.syntaxError(whole)
}

func (s *Scanner) syntaxError(line []byte) error {
	return fmt.Errorf("line %d: %w: %.80q", s.n, ErrSyntax, line)
}

func hasModule(raw []byte) bool { return len(raw) > 0 && raw[len(raw)-1] == ']' }

// cutModule splits a line into the part before the module at its end, and the module. If the
// line does not end with a module, module is nil and rest is the whole line.
func cutModule(raw []byte) (rest, module []byte) {
	tab := bytes.LastIndexByte(raw, '\t')
	if tab < 0 || len(raw) < tab+len("\t[x]") || raw[tab+1] != '[' {
		return raw, nil
	}
	return raw[:tab], raw[tab+2 : len(raw)-1]
}

// SkipToModules skips the lines of the core kernel; it checks only whether a line ends with a
// module. The next call to Scan returns the first line with a module. SkipToModules returns
// io.EOF if there is none.
func (s *Scanner) SkipToModules() error {
	for {
		raw, err := s.next()
		if err != nil {
			return err
		}
		if hasModule(raw) {
			s.unread = raw
			return nil
		}
		s.n++
		s.skipLines([]byte{']'})
	}
}

// skipLines skips, all at once, the lines in the buffer before the first one that contains a
// text or has a module.
func (s *Scanner) skipLines(text []byte) {
	whole := s.rest
	for _, stop := range [][]byte{text, {']'}} {
		if i := bytes.Index(whole, stop); i >= 0 {
			whole = whole[:i]
		}
	}
	whole = whole[:bytes.LastIndexByte(whole, '\n')+1]
	s.n += bytes.Count(whole, []byte("\n"))
	s.rest = s.rest[len(whole):]
}

// skipTo skips lines of the core kernel up to the line with a name, and scans that line. It
// returns io.EOF if a module or the end comes first.
func (s *Scanner) skipTo(name string, line *Line) error {
	end := []byte(" " + name)
	for {
		raw, err := s.next()
		if err != nil {
			return err
		}
		if hasModule(raw) {
			s.unread = raw
			return io.EOF
		}
		if bytes.HasSuffix(raw, end) {
			s.unread = raw
			return s.Scan(line)
		}
		s.n++
		s.skipLines(end)
	}
}

// next returns the next line without its line break.
func (s *Scanner) next() ([]byte, error) {
	if raw := s.unread; raw != nil {
		s.unread = nil
		return raw, nil
	}
	for {
		if i := bytes.IndexByte(s.rest, '\n'); i >= 0 {
			raw := s.rest[:i]
			s.rest = s.rest[i+1:]
			if i > 0 && raw[i-1] == '\r' {
				raw = raw[:i-1]
			}
			return raw, nil
		}
		if s.err != nil {
			raw := s.rest
			s.rest = nil
			if len(raw) > 0 && errors.Is(s.err, io.EOF) {
				return bytes.TrimSuffix(raw, []byte("\r")), nil
			}
			return nil, s.err
		}
		if len(s.rest) > maxLine {
			return nil, fmt.Errorf("line %d: %w: longer than %d bytes", s.n+1, ErrSyntax, maxLine)
		}
		s.fill()
	}
}

// fill reads more data after the unscanned rest of the buffer, or sets err.
func (s *Scanner) fill() {
	left := copy(s.buf, s.rest)
	n := 0
	for tries := 0; n == 0 && s.err == nil; tries++ {
		if tries == maxEmptyReads {
			s.err = io.ErrNoProgress
			break
		}
		n, s.err = s.r.Read(s.buf[left:])
	}
	s.rest = s.buf[:left+n]
}

const maxEmptyReads = 100

// parseAddr parses an address of at most 64 bits.
func (s *Scanner) parseAddr(digits []byte) (uint64, bool) {
	if len(digits) != 16 {
		addr, err := strconv.ParseUint(string(digits), 16, 64)
		return addr, err == nil && len(digits) < 16
	}
	upper, lower := binary.BigEndian.Uint64(digits), binary.BigEndian.Uint64(digits[8:])
	if upper != s.upperDigits {
		value, ok := parseHex8(upper)
		if !ok {
			return 0, false
		}
		s.upperDigits, s.upper = upper, uint64(value)<<32
	}
	value, ok := parseHex8(lower)
	return s.upper | uint64(value), ok
}

// parseHex8 parses eight hexadecimal digits at once, the first in the highest byte: the address
// is half of the work for a line.
func parseHex8(digits uint64) (value uint32, ok bool) {
	const ones = 0x0101010101010101
	letter := digits >> 6 & ones // 1 in each byte that can only be a letter
	v := digits&(0x0f*ones) + 9*letter

	// '0' to '9' are 0x30 to 0x39, 'a' to 'f' are 0x61 to 0x66, 'A' to 'F' the
	// same without 0x20.
	wrong := (digits|letter<<5)&(0xf0*ones) ^ (0x30*ones + 0x30*letter) // the upper half of the byte
	wrong |= v & (0xf0 * ones)                                          // a value above 15
	wrong |= (v+0x76*ones)>>7&ones ^ letter                             // above 9 if and only if it is a letter

	v = (v | v>>4) & 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	return uint32(v | v>>16), wrong == 0
}
