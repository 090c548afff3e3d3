// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kernellog"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// queryKind is the form of a query.
type queryKind uint8

const (
	queryAddress queryKind = iota // addr
	queryRange                    // addr to end
	queryOffset                   // offset in an image or, if no image has the name, in a function
	queryName                     // a function's name, or a pattern
)

// A query is one question to lookup.
type query struct {
	kind      queryKind
	text      string // as it was given
	addr, end uint64
	name      string // of an image or a function, or a pattern
	module    string // the function's module, or vmlinux; empty if not given
	build     string // the build id of that, or what the kernel prints of it; empty if not given
	offset    int64
	size      uint64 // the function's size; 0 if not given
	isFrame   bool   // it was in a line of a stack
}

// The errors of text that is no query.
var (
	ErrAddress = errors.New("not a hexadecimal address of 64 bits")
	ErrRange   = errors.New("the range is empty: its end must be above its start")
	ErrQuery   = errors.New("not an address, a range, an offset, or the name of a function")
)

var (
	stackEntry = regexp.MustCompile(`^\[<[0-9a-fA-F]+>\]$`) // begins a line of /proc/PID/stack
	numeric    = regexp.MustCompile(`^(0[xX])?[0-9a-fA-F]+$`)
	nameLike   = regexp.MustCompile(`^[A-Za-z_.$<*?\[]`)
)

// wordsOf returns the words of an argument. It splits a line of a stack, but not a name, which can
// contain spaces.
func wordsOf(arg string) []string {
	words := strings.Fields(arg)
	if len(words) > 1 && stackEntry.MatchString(words[0]) {
		return words
	}
	for i := 1; i < len(words); i++ {
		if n := moduleAt(words[i:]); n > 0 && i+n == len(words) {
			return words
		}
	}
	return []string{arg}
}

// moduleAt returns how many words, at the beginning of a list, are the module of a function before them; 0 if none are.
func moduleAt(words []string) int {
	const most = 2 // [xfs 0f1e…]
	for n := 1; n <= min(most, len(words)); n++ {
		if _, _, ok := kernellog.ParseModule(strings.Join(words[:n], " ")); ok {
			return n
		}
	}
	return 0
}

// parseQueries calls visit for each query in a list of words.
func parseQueries(words []string, visit func(q query, err error) error) error {
	for isFrame := false; len(words) > 0; {
		word := words[0]
		words = words[1:]
		if stackEntry.MatchString(word) {
			isFrame = true
			continue
		}
		q, err := parseQuery(word)
		q.isFrame, isFrame = isFrame, false
		if n := moduleAt(words); n > 0 {
			module := strings.Join(words[:n], " ")
			q.module, q.build, _ = kernellog.ParseModule(module)
			q.text += " " + module
			words = words[n:]
		}
		if err := visit(q, err); err != nil {
			return err
		}
	}
	return nil
}

// parseQuery parses one word. A word of hexadecimal digits is an address.
func parseQuery(s string) (query, error) {
	q := query{text: s}
	var err error
	if numeric.MatchString(s) {
		q.addr, err = ParseAddress(s)
		return q, err
	}
	if from, to, ok := strings.Cut(s, "-"); ok && numeric.MatchString(from) && numeric.MatchString(to) {
		addr, err := ParseAddress(from)
		end, errEnd := ParseAddress(to)
		switch {
		case errors.Join(err, errEnd) != nil:
		case addr < end:
			q.kind, q.addr, q.end = queryRange, addr, end
			return q, nil
		case end > maxOffset:
			return q, fmt.Errorf("%w: %q", ErrRange, s)
		}
	}
	if i := strings.LastIndexAny(s, "+-"); i >= 0 && !isPattern(s) {
		return parseOffset(q, s, i)
	}
	q.kind, q.name = queryName, s
	if !nameLike.MatchString(s) {
		return q, fmt.Errorf("%w: %q", ErrQuery, s)
	}
	if _, err := path.Match(s, ""); err != nil {
		return q, fmt.Errorf("%w: %q", err, s)
	}
	return q, nil
}

// isPattern reports whether a name contains wildcards.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// maxOffset is the largest offset in an image or a function, and the size of the largest function.
const maxOffset = 1 << 32

// parseOffset parses NAME+OFFSET, NAME+OFFSET/SIZE or, for code that a module has below its .text,
// NAME-OFFSET.
func parseOffset(q query, s string, sign int) (query, error) {
	distance, size, hasSize := strings.Cut(s[sign+1:], "/")
	offset, err := ParseAddress(distance)
	if hasSize && err == nil {
		q.size, err = ParseAddress(size)
	}
	if err != nil || sign == 0 || offset > maxOffset || q.size > maxOffset || hasSize && (q.size == 0 || s[sign] == '-') {
		return q, fmt.Errorf("%w, or a name and an offset below 4 GiB: %q", ErrAddress, s)
	}
	q.kind, q.name, q.offset = queryOffset, s[:sign], int64(offset)
	if s[sign] == '-' {
		q.offset = -q.offset
	}
	return q, nil
}

// startAndLength returns the range START+LENGTH that the query stands for, provided that START is
// not a build id.
func (q *query) startAndLength() (start, end uint64, ok bool) {
	start, err := ParseAddress(q.name)
	if err != nil || q.size != 0 || q.offset <= 0 || start+uint64(q.offset) < start {
		return 0, 0, false
	}
	return start, start + uint64(q.offset), true
}

// ParseAddress parses an address in hexadecimal digits, with or without 0x.
func ParseAddress(s string) (uint64, error) {
	addr, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(s), "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q", ErrAddress, s)
	}
	return addr, nil
}

// isIn reports whether a query can be about a function in an image.
func (q *query) isIn(m *timeline.Image) bool {
	return (q.module == "" || !m.IsFunction() && m.Name() == q.module) &&
		(q.build == "" || kernellog.PrintedID(m.BuildID()) == kernellog.PrintedID(q.build))
}

// fits reports whether a function of this length can be the one asked for.
func (q *query) fits(length uint64, caller bool) bool {
	if q.size != 0 && q.size != length {
		return false
	}
	// If a call is the last instruction of a function, the kernel prints its return address like
	// this.
	behind := uint64(q.offset) == length && (caller || q.size != 0)
	return uint64(q.offset) < length || behind
}

// misfit explains why no function of that name fits.
func (q *query) misfit() string {
	switch {
	case q.size != 0 && uint64(q.offset) > q.size:
		return fmt.Sprintf("%#x is behind the end of a function of %#x bytes", q.offset, q.size)
	case q.size != 0:
		return fmt.Sprintf("no function of that name has %#x bytes", q.size)
	}
	return "no function of that name is that long"
}
