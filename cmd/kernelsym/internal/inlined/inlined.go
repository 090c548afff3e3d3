// SPDX-License-Identifier: Apache-2.0

// Package inlined finds the places at which functions were inlined, in packs or in the BTF of the running kernel.
package inlined

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/btfinline"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/running"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Place is where a function was inlined.
type Place struct {
	Inlined  string `json:"inlined"`
	Function string `json:"function,omitempty"` // function that contains the code; empty if unknown
	Address  string `json:"address"`            // in the form that lookup accepts
	Bytes    uint32 `json:"bytes,omitempty"`    // 0 if unknown
	Image    string `json:"image"`
	BuildID  string `json:"build_id,omitempty"`

	// The call in the source. If it is unknown, all three are empty.
	Caller string `json:"caller,omitempty"`
	File   string `json:"file,omitempty"`
	Line   uint32 `json:"line,omitempty"`
}

// Options say where to search, and whom to tell what is missing.
type Options struct {
	Procfs, Sysfs string
	Packs         *packview.Packs // searched in place of the running kernel, unless nil
	Warn          func(error)     // gets the reasons why the snapshot of the running kernel is incomplete
	Failed        func(error)     // gets the errors of files that cannot be read if others can
}

// ErrNoLines is returned if the packs have no line information to search.
var ErrNoLines = errors.New("the packs have symbols only: make them from files with debug information")

// Find returns the places of functions whose names match.
func Find(ctx context.Context, o Options, match func(name string) bool) ([]Place, error) {
	if o.Packs != nil {
		return inPacks(o.Packs, match, o.Failed)
	}
	sites, err := btfinline.NewReader(o.Procfs, o.Sysfs, match).Read()
	switch {
	case err != nil && len(sites) == 0:
		return nil, err
	case err != nil:
		o.Failed(err)
	}
	list := sources.Options{Procfs: o.Procfs, Sysfs: o.Sysfs, Modules: sources.Modules{Enabled: true}}
	snapshot, err := running.Load(ctx, sources.List(list), o.Warn)
	if err != nil {
		return nil, err
	}
	places := make([]Place, 0, len(sites))
	for _, s := range sites {
		places = append(places, placeOf(snapshot, s))
	}
	return places, nil
}

// placeOf returns the place of a site, with the function that contains the code if that is certain.
func placeOf(snapshot *timeline.Snapshot, s btfinline.Site) Place {
	p := Place{Inlined: symtab.NameOf(s.Entry.Function).Name, Image: s.Object}
	if s.Address == 0 {
		p.Address = fmt.Sprintf("%s:%s+%#x", s.Object, s.Entry.Section, s.Entry.Offset)
		return p
	}
	p.Address = "0x" + printable.Address(s.Address).String()
	hit, _ := snapshot.At(s.Address, timeline.Present)
	if hit.Image == nil || hit.Image.IsFunction() || hit.Image.Name() != s.Object {
		return p
	}
	p.BuildID = hit.Image.BuildID()
	if hit.Symbol.Exists() {
		p.Function = hit.Name().Name
	}
	return p
}

// Print prints a table of places, and the number of places and functions.
func Print(out *printable.Printer, places []Place) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := printable.New(table, false)
	rows.Printf("ADDRESS\tBYTES\tINLINED\tFUNCTION\tCALLED FROM\n")
	functions := make(map[[3]string]bool)
	for _, p := range places {
		bytes, from := "-", "-"
		if p.Bytes != 0 {
			bytes = strconv.FormatUint(uint64(p.Bytes), 10)
		}
		if p.Caller != "" {
			from = strings.TrimLeft(packview.Position(p.File, p.Line)+" in "+p.Caller, " ")
		}
		rows.Printf("%s\t%s\t%s\t%s\t%s\n", p.Address, bytes, p.Inlined, cmp.Or(p.Function, "?"), from)
		if p.Function != "" {
			functions[[3]string{p.Image, p.BuildID, p.Function}] = true
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return out.Printf("\n%s in %s\n", plural.Of(len(places), "place"), plural.Of(len(functions), "function"))
}
