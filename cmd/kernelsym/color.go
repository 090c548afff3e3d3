// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/doctor"
)

// palette colors text if it is true.
type palette bool

// paletteOf returns the palette for output to w. Only a terminal gets colors.
func paletteOf(w io.Writer) palette { return palette(wantsColor(w)) }

// wantsColor reports whether w is a terminal and its user has not turned colors off (no-color.org).
func wantsColor(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && !isDumb() && term.IsTerminal(int(f.Fd()))
}

// isDumb reports whether the terminal has no control codes.
func isDumb() bool { return os.Getenv("TERM") == "dumb" }

func (p palette) strong(s string) string { return p.paint("\x1b[1m", s) }
func (p palette) faint(s string) string  { return p.paint("\x1b[2m", s) }
func (p palette) green(s string) string  { return p.paint("\x1b[32m", s) }

// paint puts the escape sequence of a color before s and a reset after it (ECMA-48).
func (p palette) paint(color, s string) string {
	if !p || s == "" {
		return s
	}
	return color + s + "\x1b[0m"
}

// columnsOf returns the width of a terminal, or else that of a report.
func columnsOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return doctor.Columns
}
