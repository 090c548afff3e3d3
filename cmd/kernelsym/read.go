package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"golang.org/x/term"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
)

// readFile calls visit for each message in a file. On a terminal it shows how far
// it is.
func readFile(cmd *cobra.Command, name string, visit func(pprofile.Profiles) error) error {
	f, err := os.Open(name)
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
	if messages > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
		cmd.PrintErrf("Warning: %s ends in the middle of a message; it is left out.\n", name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
