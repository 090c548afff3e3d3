// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/doctor"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// stdout returns the Printer for the answers of a command.
func stdout(cmd *cobra.Command) *printable.Printer {
	return printerTo(cmd.OutOrStdout(), printable.New)
}

// stderr returns the Printer for the messages of a command.
func stderr(cmd *cobra.Command) *printable.Printer {
	return printerTo(cmd.ErrOrStderr(), printable.NewMessages)
}

// printerTo returns w itself if it is a Printer. runCommand makes both outputs of a command one.
func printerTo(w io.Writer, newPrinter func(w io.Writer, colors bool) *printable.Printer) *printable.Printer {
	if p, ok := w.(*printable.Printer); ok {
		return p
	}
	return newPrinter(w, wantsColor(w))
}

// wantsColor reports whether w is a terminal and its user has not turned colors off (no-color.org).
func wantsColor(w io.Writer) bool {
	return terminal(w) != nil && os.Getenv("NO_COLOR") == "" && !isDumb()
}

// isDumb reports whether the terminal has no control codes.
func isDumb() bool { return os.Getenv("TERM") == "dumb" }

// terminal returns the file behind a stream, or nil if it is not a terminal.
func terminal(stream any) *os.File {
	file, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}

// columnsOf returns the width of a terminal, or else that of a report.
func columnsOf(out *printable.Printer) int {
	if f := terminal(out.Raw()); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return doctor.Columns
}
