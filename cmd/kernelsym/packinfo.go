// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/regularfile"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// printPack prints a description of a pack.
func printPack(out *printable.Printer, name, output string) error {
	f, err := regularfile.Open(name)
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
		return writeJSON(out, describePack(p))
	}
	return writePackText(out, p)
}

// packDescription describes the contents of a pack.
type packDescription struct {
	BuildID      string `json:"build_id"`
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Release      string `json:"release,omitempty"`
	Bytes        int    `json:"bytes"`
	Symbols      int    `json:"symbols"`

	// Counts of line information.
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
		Rows: c.Rows, Functions: c.Functions, Files: c.Files, Inlined: c.Nodes,
	}
}

func writePackText(out *printable.Printer, p *pack.Pack) error {
	info := p.Info()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := printable.New(table, false)
	rows.Printf("build id\t%s\n", info.BuildID)
	rows.Printf("name\t%s\n", info.Name)
	rows.Printf("architecture\t%s\n", info.Arch)
	rows.Printf("release\t%s\n", info.Release)
	rows.Printf("bytes\t%d\n", p.Bytes())
	rows.Printf("symbols\t%d\n", p.NumSymbols())
	if c := p.Counts(); p.HasLines() {
		rows.Printf("lines\t%d rows, %d functions, %d files, %d places of functions\n", c.Rows, c.Functions, c.Files, c.Nodes)
	} else {
		rows.Printf("lines\tnone: symbols only\n")
	}
	rows.Printf("code\t%#x-%#x\n", info.Extent.Start, info.Extent.End)
	rows.Printf("base\t%#x\n", info.Base)
	if info.Gap.End > 0 {
		rows.Printf("init code\t%#x-%#x\n", info.Gap.End, info.Extent.End)
	}
	if info.Text != 0 || info.Stext != 0 {
		rows.Printf("_text, _stext\t%#x, %#x\n", info.Text, info.Stext)
	}
	for _, s := range info.Sections {
		rows.Printf("section\t%#x-%#x %s\n", s.Range.Start, s.Range.End, s.Name)
	}
	return table.Flush()
}
