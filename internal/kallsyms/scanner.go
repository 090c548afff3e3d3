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
	Type   byte   // as nm(1) has it
	Name   []byte // valid until the next call of Scan
	Module []byte // without the brackets, empty for the core kernel; valid as Name
}

// ErrSyntax says that the input is not a list of kernel symbols.
var ErrSyntax = errors.New("not a line of kallsyms")

// maxLine bounds the length of a line. The kernel's longest has 16 digits of
// address, a name of 511 bytes and a module's of 55.
const maxLine = 4096

// bufLen is the size of a Scanner's buffer. The kernel gives no more than a page
// for each read.
const bufLen = 2*maxLine + 8192

// A Scanner reads a list of kernel symbols line by line.
//
// It takes lines that end in "\r\n" and a last line without an end. It keeps one
// buffer and does not allocate for a line.
type Scanner struct {
	r    io.Reader
	buf  []byte
	rest []byte // of buf, not looked at yet
	err  error  // of r
	n    int    // lines read

	unread []byte // a line to be returned once more, or nil

	// The upper eight digits of the last address, and what they stand for: they
	// change rarely.
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

// Scan reads the next line. At the end of the input it returns io.EOF. Any other
// error is that of the reader, or wraps ErrSyntax and names the line.
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

// cutModule returns a line without the module that stands at its end, and the
// module. The module is nil, and the line whole, if what stands there is not one.
func cutModule(raw []byte) (rest, module []byte) {
	tab := bytes.LastIndexByte(raw, '\t')
	if tab < 0 || len(raw) < tab+len("\t[x]") || raw[tab+1] != '[' {
		return raw, nil
	}
	return raw[:tab], raw[tab+2 : len(raw)-1]
}

// SkipToModules passes over the lines of the core kernel, of which it reads only
// whether there is a module at the end. The line scanned next is the first one that has a
// module. It returns io.EOF if there is none.
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

// skipLines passes over the lines in the buffer that do not contain a text nor have a
// module, all at once.
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

// skipTo passes over lines of the core kernel up to one with a name, which it scans. It
// returns io.EOF if a module, or the end, comes first.
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

// next returns the next line without its end.
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

// fill reads something behind what is left of the buffer, or sets err.
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

// parseHex8 parses eight hexadecimal digits, the first in the highest byte, all
// at once: an address is half of the work on a line.
func parseHex8(digits uint64) (value uint32, ok bool) {
	const ones = 0x0101010101010101
	letter := digits >> 6 & ones // 1 in each byte that can only be a letter
	v := digits&(0x0f*ones) + 9*letter

	// '0' to '9' are 0x30 to 0x39, 'a' to 'f' are 0x61 to 0x66, 'A' to 'F' the
	// same without 0x20.
	wrong := (digits|letter<<5)&(0xf0*ones) ^ (0x30*ones + 0x30*letter) // the upper half of the byte
	wrong |= v & (0xf0 * ones)                                          // a value above 15
	wrong |= (v+0x76*ones)>>7&ones ^ letter                             // above 9 just if it is a letter

	v = (v | v>>4) & 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	return uint32(v | v>>16), wrong == 0
}
