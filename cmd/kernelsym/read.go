// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

var (
	errEmpty     = errors.New("the file is empty: the collector has not written a message yet")
	errNoMessage = errors.New("the file ends in the middle of its first message: the collector may still be writing it")
	errDirectory = errors.New("this is a directory: name the files in it")
)

// filesHelp describes the arguments of a command that reads profile files.
const filesHelp = "FILE is a file that a collector's file exporter wrote, in any of its formats, also\n" +
	"compressed with gzip or zstd. Several files are read as one; - stands for standard input."

// readFiles calls visit for each message in the profile files, which are of any machine. The name - stands for standard input.
// A file without messages is an error only if no other file has any. A file of a few kilobytes can take gigabytes: it must
// run within [withinMemory].
func readFiles(cmd *cobra.Command, names []string, visit func(*rewrite.Named)) error {
	var empty []error
	for _, name := range names {
		err := readFile(cmd, name, visit)
		switch {
		case errors.Is(err, errEmpty) || errors.Is(err, errNoMessage):
			empty = append(empty, err)
		case err != nil:
			return err
		}
	}
	if len(empty) == len(names) {
		return errors.Join(empty...)
	}
	for _, err := range empty {
		warn(cmd, err)
	}
	return nil
}

// warn prints an error, in one line, that does not end a command.
func warn(cmd *cobra.Command, err error) {
	stderr(cmd).Printf("Warning: %s\n", strings.ReplaceAll(asRoot(cmd, err).Error(), "\n", "; "))
}

// maxWarnings limits how many warnings warnOnce prints, because a text can have any number of builds without a pack.
const maxWarnings = 1000

// warnOnce returns a function that prints an error as warn does, unless it has printed the same.
func warnOnce(cmd *cobra.Command) func(error) {
	printed := make(map[string]bool)
	return func(err error) {
		if text := err.Error(); !printed[text] && len(printed) < maxWarnings {
			printed[text] = true
			warn(cmd, err)
		}
	}
}

// checkKinds returns an error if no profile in files has the type of values that was asked for. It says on standard error
// which profiles were left out.
func checkKinds(cmd *cobra.Command, kinds *profilefile.Kinds, wanted string) error {
	others := kinds.Others()
	switch {
	case others != "" && kinds.Type().Name == "" && wanted != "":
		return fmt.Errorf("no profile has values of type %s: the files have %s", wanted, others)
	case others != "":
		stderr(cmd).Printf("Left out %s. --type chooses.\n", others)
	}
	return nil
}

// typeFlag adds the flag for the type of values in files.
func typeFlag(flags *pflag.FlagSet, kind *string) {
	flags.StringVar(kind, "type", "", "with FILE, count only profiles with values of this type, such as samples or off_cpu (default: the type of the first profile)")
}

func readFile(cmd *cobra.Command, name string, visit func(*rewrite.Named)) error {
	r, err := open(cmd, name)
	if err != nil {
		return err
	}
	defer r.Close()
	messages := 0
	err = profilefile.Read(r, func(n *rewrite.Named) error {
		messages++
		visit(n)
		return cmd.Context().Err()
	})
	cut := errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case cut && messages > 0:
		stderr(cmd).Printf("Warning: %s ends in the middle of a message; it is left out.\n", name)
		return nil
	case cut:
		err = errNoMessage
	case err == nil && messages == 0:
		err = errEmpty
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// open opens a profile file. On a terminal, it shows the progress of reading.
func open(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin(cmd, "profiles")), nil
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(filepath.ToSlash(filepath.Clean(name)), "build/run/profiles.json") {
		return nil, fmt.Errorf("%w: run `make run` first", err)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s: %w", name, errDirectory)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() || !term.IsTerminal(int(os.Stderr.Fd())) {
		return f, nil
	}
	bar := progressbar.DefaultBytes(info.Size(), "reading")
	return &shownFile{Reader: io.TeeReader(f, bar), file: f, bar: bar}, nil
}

// shownFile is a file whose reads advance a progress bar.
type shownFile struct {
	io.Reader
	file *os.File
	bar  *progressbar.ProgressBar
}

func (s *shownFile) Close() error { return errors.Join(s.bar.Clear(), s.file.Close()) }
