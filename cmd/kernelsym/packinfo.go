// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// printPack prints a description of a pack.
func printPack(w io.Writer, name, output string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return err
	}
	p, err := pack.Read(f, stat.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if output == outputJSON {
		return writeJSON(w, describePack(p))
	}
	return writePackText(w, p)
}

// packDescription describes the contents of a pack.
type packDescription struct {
	BuildID      string `json:"build_id"`
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Release      string `json:"release,omitempty"`
	Bytes        int    `json:"bytes"`
	Symbols      int    `json:"symbols"`
	packLines
}

// packLines are the counts of line information.
type packLines struct {
	Rows      int `json:"line_rows"` // 0 in a pack of symbols only
	Functions int `json:"functions"`
	Files     int `json:"files"`
	Inlined   int `json:"inlined_places"`
}

func describePack(p *pack.Pack) packDescription {
	info, c := p.Info(), p.Counts()
	return packDescription{
		BuildID: info.BuildID, Name: info.Name, Architecture: info.Arch, Release: info.Release,
		Bytes: int(p.Bytes()), Symbols: p.NumSymbols(),
		packLines: packLines{Rows: c.Rows, Functions: c.Functions, Files: c.Files, Inlined: c.Nodes},
	}
}

func writePackText(w io.Writer, p *pack.Pack) error {
	info := p.Info()
	t := tabwriter.NewWriter(printable.Writer(w), 0, 0, 2, ' ', 0)
	row := func(key, format string, args ...any) { fmt.Fprintf(t, key+"\t"+format+"\n", args...) }
	row("build id", "%s", info.BuildID)
	row("name", "%s", info.Name)
	row("architecture", "%s", info.Arch)
	row("release", "%s", info.Release)
	row("bytes", "%d", p.Bytes())
	row("symbols", "%d", p.NumSymbols())
	if c := p.Counts(); p.HasLines() {
		row("lines", "%d rows, %d functions, %d files, %d places of functions", c.Rows, c.Functions, c.Files, c.Nodes)
	} else {
		row("lines", "none: symbols only")
	}
	row("code", "%#x-%#x", info.Extent.Start, info.Extent.End)
	row("base", "%#x", info.Base)
	if info.Gap.End > 0 {
		row("init code", "%#x-%#x", info.Gap.End, info.Extent.End)
	}
	if info.Text != 0 || info.Stext != 0 {
		row("_text, _stext", "%#x, %#x", info.Text, info.Stext)
	}
	for _, s := range info.Sections {
		row("section", "%#x-%#x %s", s.Start, s.End, s.Name)
	}
	return t.Flush()
}
