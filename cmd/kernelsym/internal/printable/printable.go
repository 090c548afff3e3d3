// SPDX-License-Identifier: Apache-2.0

// Package printable keeps text from controlling the terminal that it is printed on. Names of processes, of code in profiles
// and packs, and the answers of servers can hold any bytes. Each command prints through a [Printer]. Names that are inserted
// into a copy of the input, or into a page, pass through [Text].
package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Text returns text for one place in a line, with everything replaced that cannot be seen: control characters, line breaks
// and tabs among them, characters that change the direction of writing, and bytes that are not UTF-8.
func Text(s string) string { return replace(s, "") }

func replace(s, except string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || strings.ContainsRune(except, r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Arg returns an argument for a function of package fmt: the formatted value passes through safe. Numbers other than runes
// stay as they are. An int can be the width of the next argument.
func Arg(value any, safe func(string) string) any {
	switch value.(type) {
	case int, int64, uint64, float64:
		return value
	}
	return arg{value, safe}
}

type arg struct {
	value any
	safe  func(string) string
}

// Format implements fmt.Formatter.
func (a arg) Format(s fmt.State, verb rune) {
	_, _ = io.WriteString(s, a.safe(fmt.Sprintf(fmt.FormatString(s, verb), a.value))) // s keeps its own error
}

// NoName is printed for code without a name.
const NoName = "[no name]"

// Address is a kernel address that is printed the way the kernel prints it.
type Address uint64

func (a Address) String() string { return fmt.Sprintf("%016x", uint64(a)) }

// MarshalText encodes the address as a string, because numbers in JSON have only 53 bits.
func (a Address) MarshalText() ([]byte, error) { return []byte("0x" + a.String()), nil }
