// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"bytes"
	"math/rand"
	"strings"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// A modelPack is the pack of a build, together with the model's copy of its rows.
type modelPack struct {
	*pack.Pack
	rows []modelRow // in the order of their addresses
}

// A modelRow gives the source lines at pack addresses up to the next row, the innermost function first. A
// line in assembler has no name.
type modelRow struct {
	start uint32
	lines []rewritetest.Line
}

// inlined are functions that are inlined everywhere, as they are written.
var inlined = []rewritetest.Line{
	{Name: "get_current", System: "get_current"}, {Name: "kasan_check", System: "kasan_check"},
	{Name: "core::cell", System: "_RNvC4core4cell"},
}

// newPack returns a pack for the build of the core kernel or of a module. Some rows reach into the next
// symbol; some have inline chains, assembler, or functions with other names.
func newPack(r *rand.Rand, m *modelImage) *modelPack {
	low := func(addr uint64) uint32 { return uint32(addr - m.start) }
	span := func(s symtab.Range) pack.Range {
		if s == (symtab.Range{}) {
			return pack.Range{}
		}
		return pack.Range{Start: low(s.Start), End: low(s.End)}
	}
	info := pack.Info{
		BuildID: m.BuildID(), Name: m.Name(), Base: low(m.Base()), Extent: pack.Range{End: low(m.end)}, Gap: span(m.gap),
	}
	if marks := m.Text.Landmarks; marks != nil {
		info.Arch, info.Marks = marks.Arch, pack.Marks{Entry: span(marks.Entry), Fred: span(marks.Fred)}
		for _, t := range marks.Thunks {
			info.Marks.Thunks = append(info.Marks.Thunks, span(t))
		}
	}
	w := pack.NewWriter(info)
	p := &modelPack{}
	for at := m.start; at < m.end; at += uint64(1 + r.Intn(24)) {
		row := modelRow{start: low(at)}
		if s := m.symbol(at); s != nil && r.Intn(8) != 0 {
			row.lines = p.chain(r, w, row.start, s)
		} else {
			w.Row(row.start, 0, 0, 0)
		}
		p.rows = append(p.rows, row)
	}
	w.Row(low(m.end), 0, 0, 0)
	p.rows = append(p.rows, modelRow{start: low(m.end)})
	for _, s := range m.symbols {
		if s.end > s.start {
			w.Symbol(pack.Symbol{Range: pack.Range{Start: low(s.start), End: low(s.end)}, Name: s.system, Folded: s.folded})
		}
	}
	data, err := w.Bytes()
	if err != nil {
		panic(err)
	}
	if p.Pack, err = pack.Read(bytes.NewReader(data), int64(len(data))); err != nil {
		panic(err)
	}
	return p
}

// chain writes a row about a symbol, and returns its lines.
func (p *modelPack) chain(r *rand.Rand, w *pack.Writer, at uint32, s *modelSymbol) (lines []rewritetest.Line) {
	place := func() (file string, line uint32) {
		return []string{"", "a.c", "b.c", "include/c.h"}[r.Intn(4)], []uint32{0, 1, 7, 300}[r.Intn(4)]
	}
	name := s.system + []string{"", "", "", ".isra.0", ".cold", "_else"}[r.Intn(6)]
	file, line := place()
	if r.Intn(6) == 0 { // assembler
		if file == "" {
			line = 0
		}
		w.Row(at, 0, w.File(file), line)
		if file == "" {
			return nil
		}
		return []rewritetest.Line{{File: file, Line: int64(line)}}
	}
	lines = []rewritetest.Line{{Name: name, System: name}}
	node := w.Node(0, w.Function(name, w.File("x.c"), 5), 0, 0)
	for range r.Intn(3) {
		f := inlined[r.Intn(len(inlined))]
		node = w.Node(node, w.Function(f.System, w.File("include/d.h"), 9), w.File(file), line)
		lines[0].File, lines[0].Line = file, int64(line)
		lines = append([]rewritetest.Line{f}, lines...)
		file, line = place()
	}
	lines[0].File, lines[0].Line = file, int64(line)
	w.Row(at, node, w.File(file), line)
	return lines
}

// packLines returns the lines that a pack has for an address in a symbol, nil if it has none
// or the pack says that the function is another (section 10.1).
func (a *asker) packLines(m *modelImage, s *modelSymbol, addr uint64) []rewritetest.Line {
	if !a.opts.DebugInfo || !m.isText() || a.packs[m.BuildID()] == nil {
		return nil
	}
	p := a.packs[m.BuildID()]
	var lines []rewritetest.Line
	for _, row := range p.rows {
		if uint64(row.start) <= addr-m.start {
			lines = row.lines
		}
	}
	if len(lines) == 0 {
		return nil
	}
	outer := lines[len(lines)-1]
	function := strings.TrimSuffix(strings.TrimSuffix(outer.Name, ".isra.0"), ".cold")
	if outer.Name != "" && function != s.system {
		return nil
	}
	outer.Name, outer.System = s.name, s.system
	if len(lines) == 1 || !a.opts.Inline {
		if outer.File == "" && outer.Line == 0 {
			return nil // it says nothing
		}
		return []rewritetest.Line{outer}
	}
	return append(append([]rewritetest.Line{}, lines[:len(lines)-1]...), outer)
}

// gains returns the lines that a correctly named frame gets, nil if it keeps its own (section 1.2).
func (a *asker) gains(u *use) []rewritetest.Line {
	m, s := u.hit.image, u.hit.symbol
	if s == nil || len(u.frame.Lines) != 1 || u.frame.Lines[0].Line != 0 || u.frame.Lines[0].Name != s.name {
		return nil
	}
	lines := a.packLines(m, s, u.addr)
	if len(lines) == 0 {
		return nil
	}
	if outer := lines[len(lines)-1]; (outer.Line == 0 || outer.File == "") && u.frame.Lines[0].File != "" {
		return nil
	}
	return lines
}

// newPacks makes packs of some of the builds.
func (w *world) newPacks() *pack.Set {
	w.packs = make(map[string]*modelPack)
	var all []*pack.Pack
	for _, m := range append([]*modelImage{w.core}, w.images...) {
		if m == nil || !m.isText() || m.BuildID() == "" || w.packs[m.BuildID()] != nil || w.r.Intn(4) == 0 {
			continue
		}
		p := newPack(w.r, m)
		w.packs[m.BuildID()] = p
		all = append(all, p.Pack)
	}
	return pack.NewSet(all)
}
