package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// printPack prints what a pack holds.
func printPack(w io.Writer, name string) error {
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
	info := p.Info()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
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
