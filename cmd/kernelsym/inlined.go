// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/btfinline"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// place is where a function was inlined.
type place struct {
	Inlined  string `json:"inlined"`
	Function string `json:"function,omitempty"` // function that contains the code; empty if unknown
	Address  string `json:"address"`            // in the form that lookup accepts
	Bytes    uint32 `json:"bytes,omitempty"`    // 0 if unknown
	Image    string `json:"image"`
	BuildID  string `json:"build_id,omitempty"`
	*call
}

// call is the call in the source. A place has none if it is unknown.
type call struct {
	Caller string `json:"caller"`
	File   string `json:"file,omitempty"`
	Line   uint32 `json:"line,omitempty"`
}

// inlined holds the flags of the command.
type inlined struct {
	procfs, sysfs, output string
	packs                 []string // paths
}

func newInlined() *cobra.Command {
	var i inlined
	cmd := &cobra.Command{
		Use:   "inlined NAME...",
		Short: "Print where a function was inlined",
		Long: "Print the functions and addresses at which a function was inlined. NAME is its name or a pattern\n" +
			"with *, ? and [...]. Rust names can be mangled or not.\n\n" +
			"With --pack, the answer comes from packs and includes the size of the code and the line of the\n" +
			"call. Code that the compiler split has several lines of output. Nothing of this machine is read.\n\n" +
			"Without --pack, the answer comes from the running kernel, which must be built with\n" +
			"CONFIG_DEBUG_INFO_BTF_INLINE (expected in Linux 7.4). If that is a module, the kernel loads it,\n" +
			"which takes 9.5 MB of its memory.\n\n" +
			"The exit status is 1 if a name is inlined nowhere, or something cannot be read.",
		Example: "  kernelsym inlined fdget_pos\n" +
			"  kernelsym inlined --pack /var/lib/kernelsym/packs 'rcu_read_*lock' --output json",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := newPatterns(args...)
			if err != nil {
				return usage(cmd, err)
			}
			var failed []error
			places, err := i.find(cmd.Context(), names.match, func(err error) { warn(cmd, err) },
				func(err error) { failed = append(failed, err) })
			if err == nil {
				err = i.print(stdout(cmd), places)
			}
			if missing := names.unmatched(); err == nil && len(missing) > 0 {
				err = fmt.Errorf("%w: %s", errNowhere, strings.Join(missing, ", "))
			}
			return errors.Join(append(failed, err)...)
		},
	}
	packFlag(cmd, &i.packs)
	machineFlags(cmd, &i.procfs, &i.sysfs)
	outputFlag(cmd, &i.output)
	return cmd
}

func (i *inlined) print(out *printable.Printer, places []place) error {
	switch {
	case i.output == outputJSON:
		return writeJSON(out, places...)
	case len(places) > 0:
		return writePlaces(out, places)
	}
	return nil
}

// find returns the places of functions whose names match. It searches the packs if there are any,
// and otherwise the running kernel. If only some files cannot be read, find passes their errors to
// failed. It passes to warn the reasons why the snapshot of the running kernel is incomplete.
func (i *inlined) find(ctx context.Context, match func(name string) bool, warn, failed func(error)) ([]place, error) {
	p, err := openPacks(i.packs)
	switch {
	case err != nil:
		return nil, err
	case p != nil:
		return p.inlined(match, failed)
	}
	sites, err := btfinline.NewReader(i.procfs, i.sysfs, match).Read()
	switch {
	case errors.Is(err, btfinline.ErrNone):
		return nil, fmt.Errorf("%w; %w", err, errNoInlined)
	case err != nil && len(sites) == 0:
		return nil, err
	case err != nil:
		failed(err)
	}
	o := sources.Options{Procfs: i.procfs, Sysfs: i.sysfs, Modules: sources.Modules{Enabled: true}}
	snapshot, err := load(ctx, o, warn)
	if err != nil {
		return nil, err
	}
	places := make([]place, 0, len(sites))
	for _, s := range sites {
		places = append(places, placeOf(snapshot, s))
	}
	return places, nil
}

// errNowhere is returned for names that match no inlined function.
var errNowhere = errors.New("inlined nowhere")

// errNoInlined explains what to do if the running kernel has no list of inlined functions.
var errNoInlined = errors.New("name packs with --pack, which `kernelsym pack` makes")

// placeOf returns the place of a site, with the function that contains the code if that is certain.
func placeOf(snapshot *timeline.Snapshot, s btfinline.Site) place {
	p := place{Inlined: symtab.NameOf(s.Function).Name, Image: s.Object}
	if s.Address == 0 {
		p.Address = fmt.Sprintf("%s:%s+%#x", s.Object, s.Section, s.Offset)
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

// writePlaces prints a table of places, and the number of places and functions.
func writePlaces(out *printable.Printer, places []place) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := printable.New(table, false)
	rows.Printf("ADDRESS\tBYTES\tINLINED\tFUNCTION\tCALLED FROM\n")
	functions := make(map[[3]string]bool)
	for _, p := range places {
		bytes, from := "-", "-"
		if p.Bytes != 0 {
			bytes = strconv.FormatUint(uint64(p.Bytes), 10)
		}
		if p.call != nil {
			from = strings.TrimLeft(position(p.File, p.Line)+" in "+p.Caller, " ")
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

// sortPlaces sorts places by inlined function and image. It keeps the order of places within an
// image.
func sortPlaces(places []place) {
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(strings.Compare(a.Inlined, b.Inlined), strings.Compare(a.Image, b.Image), strings.Compare(a.BuildID, b.BuildID))
	})
}
