// SPDX-License-Identifier: Apache-2.0

package inlined

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// inPacks returns the places at which functions with matching names were inlined. If only some
// packs cannot be read, it passes their error to failed.
func inPacks(p *packview.Packs, match func(name string) bool, failed func(error)) (places []Place, err error) {
	all, err := p.All()
	if err != nil && len(all) == 0 {
		return nil, err
	}
	if err != nil {
		failed(err)
	}
	if !slices.ContainsFunc(all, func(l packview.Listed) bool { return l.Image.Pack.HasLines() }) {
		return nil, ErrNoLines
	}
	for _, listed := range all {
		s := search{image: listed.Image, name: listed.Name, match: match}
		places = append(places, s.run()...)
	}
	slices.SortStableFunc(places, func(a, b Place) int { // places within an image keep their order
		return cmp.Or(strings.Compare(a.Inlined, b.Inlined), strings.Compare(a.Image, b.Image), strings.Compare(a.BuildID, b.BuildID))
	})
	return places, nil
}

// search is the search of one pack.
type search struct {
	image *packview.Image
	name  string // the image's name, or its build id if several packs share the name
	match func(name string) bool

	places []Place
	last   []inlinedCall // the calls in the preceding row
}

// inlinedCall is a function that one call inlined.
type inlinedCall struct {
	chain []pack.Frame // from the function outward
	place int
	end   uint32 // end of its code, as far as it has been read
}

// run returns the places in the order of their addresses. Adjacent rows of one call make one place.
func (s *search) run() []Place {
	var frames []pack.Frame
	for r := range s.image.Pack.Rows() {
		frames = s.image.Pack.Find(r.Start, frames[:0])
		s.row(r, frames)
	}
	return s.places
}

// row adds the functions inlined in a row. A call that continues from the preceding row extends its
// place; any other begins a new one.
func (s *search) row(r pack.Range, frames []pack.Frame) {
	var calls []inlinedCall
	for i := range max(1, len(frames)) - 1 {
		if !s.match(frames[i].Function) {
			continue
		}
		chain := frames[i:]
		var c inlinedCall
		if k := slices.IndexFunc(s.last, func(c inlinedCall) bool { return c.end == r.Start && isCall(c.chain, chain) }); k >= 0 {
			c = s.last[k]
		} else {
			s.places = append(s.places, s.place(r.Start, chain))
			c = inlinedCall{chain: slices.Clone(chain), place: len(s.places) - 1}
		}
		s.places[c.place].Bytes += r.End - r.Start
		c.end = r.End
		calls = append(calls, c)
	}
	s.last = calls
}

// isCall reports whether two functions were inlined by the same call. The lines in the functions
// themselves may differ.
func isCall(a, b []pack.Frame) bool {
	return a[0].Function == b[0].Function && slices.Equal(a[1:], b[1:])
}

// place returns the place of an inlined function. The chain leads from the function outward.
func (s *search) place(addr uint32, chain []pack.Frame) Place {
	info, caller, function := s.image.Pack.Info(), chain[1], chain[len(chain)-1].Function
	offset := int64(addr) - int64(info.Base)
	if symbol := s.image.Text.Lookup(s.image.Address(offset)); symbol.Exists() {
		if name := s.image.Text.SymbolName(symbol).System; pack.Agree(name, function) {
			function = name
		}
	}
	return Place{
		Inlined: symtab.NameOf(chain[0].Function).Name, Function: symtab.NameOf(function).Name,
		Address: packview.Relative(s.name, offset), Image: info.Name, BuildID: info.BuildID,
		Caller: symtab.NameOf(caller.Function).Name, File: caller.File, Line: caller.Line,
	}
}
