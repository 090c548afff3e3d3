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
	"go.opentelemetry.io/collector/pdata/pprofile"
	"golang.org/x/term"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
)

var errNoMessage = errors.New("holds no complete message yet")

// readFile calls visit for each message in a file. On a terminal it shows how far
// it is.
func readFile(cmd *cobra.Command, name string, visit func(pprofile.Profiles) error) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(filepath.ToSlash(filepath.Clean(name)), "build/run/profiles.json") {
		return fmt.Errorf("%w: run `make run` first", err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && term.IsTerminal(int(os.Stderr.Fd())) {
		bar := progressbar.DefaultBytes(info.Size(), "reading")
		defer func() { _ = bar.Clear() }()
		r = io.TeeReader(f, bar)
	}
	messages := 0
	err = profilefile.Read(r, func(pd pprofile.Profiles) error {
		messages++
		return errors.Join(cmd.Context().Err(), visit(pd))
	})
	if messages == 0 && errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", name, errNoMessage)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		cmd.PrintErrf("Warning: %s ends in the middle of a message; it is left out.\n", name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
