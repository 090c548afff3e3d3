// SPDX-License-Identifier: Apache-2.0

// Package addresses finds kernel addresses in text and inserts names after them.
package addresses

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/internal/symbolize"
)

// Name is the name of an address.
type Name struct {
	Text     string // text to insert after the address; empty if it has no name
	Function string // function that other programs may have written there already
}

// Annotate returns a line with names inserted after its addresses, which name returns for an address and its start in the
// line. An address that already has a name keeps it. Annotate returns line itself if there is nothing to insert.
func Annotate(line []byte, name func(addr uint64, start int) Name) []byte {
	var out []byte
	copied := 0
	for start := 0; start < len(line); {
		if !isWord(line[start]) {
			start++
			continue
		}
		end := start + 1
		for end < len(line) && isWord(line[end]) {
			end++
		}
		if addr, ok := parse(line[start:end]); ok {
			if n := name(addr, start); n.Text != "" && !isNamed(line[end:], n) {
				out = append(append(out, line[copied:end]...), " "+n.Text...)
				copied = end
			}
		}
		start = end
	}
	if copied == 0 {
		return line
	}
	return append(out, line[copied:]...)
}

func isWord(c byte) bool {
	return c == '_' || c-'0' < 10 || c|0x20-'a' < 26
}

// parse returns the address that a word represents, if it is in the kernel half of the address
// space.
func parse(word []byte) (addr uint64, ok bool) {
	const digits = 16
	if len(word) == digits+2 && word[0] == '0' && word[1]|0x20 == 'x' {
		word = word[2:]
	}
	if len(word) != digits {
		return 0, false
	}
	addr, err := strconv.ParseUint(string(word), 16, 64)
	return addr, err == nil && symbolize.InKernelHalf(addr)
}

// isNamed reports whether the text after an address names it, in one of the forms that programs
// print: ffffffff81000054 main_loop+0x4, [<ffffffff81000054>] main_loop+0x4/0x40,
// ffffffff81000054 <main_loop+0x4>, ffffffff81000054 main_loop ([kernel.kallsyms]).
func isNamed(rest []byte, n Name) bool {
	text := strings.TrimLeft(string(rest[:min(len(rest), maxName)]), "])>")
	behind := strings.TrimLeft(text, " \t")
	if behind == text || behind == "" {
		return false
	}
	if strings.HasPrefix(behind, n.Text) {
		return true
	}
	behind = strings.TrimLeft(behind, "<([")
	if strings.HasPrefix(behind, n.Function) && endsName(behind[len(n.Function):]) {
		return true
	}
	word, next, _ := strings.Cut(behind, " ")
	if i := strings.Index(word, "+0x"); i > 0 && strings.Trim(word[:i], hexDigits) != "" {
		return true
	}
	isOwner := strings.HasPrefix(next, "([") || strings.HasPrefix(next, "(/")
	return isOwner && word != "unknown]"
}

const (
	maxName   = 4096 // more than the longest name
	hexDigits = "0123456789abcdefABCDEFx"
)

// endsName reports whether a function's name ends where rest begins.
func endsName(rest string) bool {
	return rest == "" || !isWord(rest[0]) && !bytes.ContainsRune([]byte(".:$"), rune(rest[0]))
}
