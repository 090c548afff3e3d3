// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/flame"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/newfile"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
)

var (
	errNoSamples  = errors.New("no samples")
	errOneStdout  = errors.New("only one of --svg, --folded and --pprof can be -, standard output")
	errHTTPAndOut = errors.New("--http has no effect with --svg, --folded or --pprof: no server is started")
)

// view holds the flags of the command.
type view struct {
	http, svg, folded, pprof string
	kind                     string // of values; empty for the first
}

func newView() *cobra.Command {
	var v view
	cmd := &cobra.Command{
		Use:   "view FILE...",
		Short: "Show the flame graph of profiles in files",
		Long: "Serve the flame graph of all samples to a browser, until an interrupt (Ctrl-C), or write it to\n" +
			"files. " + filesHelp + "\n\n" +
			"Colors tell the core kernel, modules, BPF and user space apart. A kernel frame without a name is\n" +
			"drawn as \"[no name]\" with its module and offset. A function that was inlined has a frame of its\n" +
			"own, marked \"(inlined)\". Functions of the core kernel are colored by the directory of their\n" +
			"source, if packs named it. In a browser, a click on a frame or Enter zooms in, Esc and Back go one\n" +
			"step back, arrow keys move, and / searches. There, a table lists the functions, and samples can be\n" +
			"chosen by process and container.",
		Example: "  kernelsym view profiles.json\n" +
			"  kernelsym view --svg flamegraph.svg profiles.json\n" +
			"  zcat old.json.gz | kernelsym view --folded - - | sort",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.check(cmd.Flags().Changed("http")); err != nil {
				return usage(cmd, err)
			}
			return v.run(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&v.http, "http", "localhost:8080", "address to serve at")
	flags.StringVar(&v.svg, "svg", "", "write the flame graph to this file as SVG, - for standard output")
	flags.StringVar(&v.folded, "folded", "", "write a line per stack to this file, in the format of flamegraph.pl; - for standard output")
	typeFlag(flags, &v.kind)
	flags.StringVar(&v.pprof, "pprof", "", "write the profile to this file for \"go tool pprof\", - for standard output")
	return cmd
}

// check validates the flags.
func (v *view) check(withHTTP bool) error {
	toFile := func(name string) bool { return name != "-" }
	if len(slices.DeleteFunc([]string{v.svg, v.folded, v.pprof}, toFile)) > 1 {
		return errOneStdout
	}
	if withHTTP && v.writes() {
		return errHTTPAndOut
	}
	return checkAddress(v.http)
}

func (v *view) writes() bool { return v.svg != "" || v.folded != "" || v.pprof != "" }

func (v *view) run(cmd *cobra.Command, files []string) error {
	merger := profilefile.NewMerger(v.kind)
	var s *viewStacks
	err := withinMemory(cmd.Context(), func() error {
		if err := readFiles(cmd, files, merger.Add); err != nil {
			return err
		}
		s = newViewStacks(merger, nil)
		return nil
	})
	if err == nil {
		err = checkKinds(cmd, merger.Kinds(), v.kind)
	}
	if err != nil {
		return err
	}
	switch {
	case s.all == 0:
		return fmt.Errorf("%s: %w", strings.Join(files, ", "), errNoSamples)
	case s.kernel == 0:
		stderr(cmd).Printf("No kernel frames in %s.\n", s.value(s.all))
	case s.named == 0:
		stderr(cmd).Printf("%s\n", hot.NoNamesInFile)
	}
	if !v.writes() {
		return serve(cmd, v.http, func(w io.Writer, query url.Values) error { return writePage(w, merger, query) })
	}
	page := func(w io.Writer) error { return s.graph.SVG(w, flame.Page{Heading: s.heading(), Value: s.value}) }
	return errors.Join(
		writeFile(cmd, v.svg, page),
		writeFile(cmd, v.folded, s.graph.Folded),
		writeFile(cmd, v.pprof, merger.Profile().Write),
	)
}

// writePage writes the page of the samples that a query selects. It returns errNoSamples if there are none.
func writePage(w io.Writer, merger *profilefile.Merger, query url.Values) error {
	filter := newViewFilter(merger.Profile().Sample, query)
	s := newViewStacks(merger, filter)
	if s.all == 0 {
		return errNoSamples
	}
	return s.graph.HTML(w, flame.Page{Heading: s.heading(), Value: s.value, Filters: filter.page()})
}

// writeFile writes a file. The name - stands for standard output. With an empty name, it writes
// nothing.
func writeFile(cmd *cobra.Command, name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	if name == "-" {
		return write(stdout(cmd).Raw())
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return newfile.Write(name, b.Bytes(), 0o644)
}
