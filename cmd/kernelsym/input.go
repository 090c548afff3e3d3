// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// stdin returns standard input. On a terminal, it prints what the command reads. A read cannot be interrupted, so
// Ctrl-C has to kill the process. At a terminal, the first Ctrl-C does. In a pipe, the first one ends the writer, and
// only the second one kills this process.
func stdin(cmd *cobra.Command, what string) io.Reader {
	reset := func() { signal.Reset(os.Interrupt) }
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		stderr(cmd).Printf("Reading %s from the terminal. Ctrl-D ends the input; `%s --help` explains it.\n", what, cmd.CommandPath())
		reset()
	} else if ok {
		context.AfterFunc(cmd.Context(), reset)
	}
	return in
}

// eachInput calls visit for each file of text. The name - and an empty list stand for standard input. If a
// file fails, eachInput prints the error and goes on with the next file.
func eachInput(cmd *cobra.Command, names []string, visit func(io.Reader) error) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	var failed []error
	for _, name := range names {
		if err := visitInput(cmd, name, visit); err != nil {
			cmd.PrintErrln("Error:", err)
			failed = append(failed, err)
		}
	}
	cmd.SilenceErrors = true // each error was already printed
	return errors.Join(failed...)
}

// isFile reports whether an input is a file that has all of its content already.
func isFile(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

func visitInput(cmd *cobra.Command, name string, visit func(io.Reader) error) error {
	if name == "-" {
		return visit(stdin(cmd, "text"))
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return visit(f)
}
