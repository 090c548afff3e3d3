// SPDX-License-Identifier: Apache-2.0

// Package printable keeps text from controlling the terminal that it is printed on. Names of processes, of code in profiles
// and packs, and the answers of servers can hold any bytes.
package printable

import (
	"io"
	"strings"
	"unicode"
)

// Text returns text for one place in a line, with everything replaced that cannot be seen: control characters, line breaks
// and tabs among them, characters that change the direction of writing, and bytes that are not UTF-8.
func Text(s string) string { return replace(s, "") }

// Writer returns a writer of whole lines, which passes line breaks and tabs on and replaces the rest as Text does.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ w io.Writer }

// Write implements io.Writer. A character must not be split between two calls.
func (w writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.w, replace(string(b), "\n\t")); err != nil {
		return 0, err
	}
	return len(b), nil
}

func replace(s, except string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || strings.ContainsRune(except, r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
