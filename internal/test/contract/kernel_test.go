// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"fmt"
	"math/rand"
	"unique"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A modelSymbol is a symbol of kernel code, with its extent by section 3.2 of the contract.
type modelSymbol struct {
	start, end   uint64
	name, system string
	folded       bool
	others       []string // that were given up for system
}

// A modelImage is the model's view of a recorded image. It uses nothing that symtab computes.
type modelImage struct {
	*timeline.Image
	source     int    // index of its history
	start, end uint64 // a trampoline's end is cut when another image begins inside
	gap        symtab.Range
	life       timeline.Interval
	symbols    []modelSymbol // in the order of their addresses
	lines      []modelLine   // of a BPF function
	traced     modelTraced   // of a trampoline
}

// modelTraced says which function a trampoline belongs to: one of an image with symbols, or of a BPF program. The zero
// value says that it is not known.
type modelTraced struct {
	image, name  string
	program, typ uint32
}

func (f modelTraced) isProgram() bool { return f.program != 0 }

// A modelLine says which line the code comes from, from an offset on.
type modelLine struct {
	offset       uint32
	line, column int64
	file         string
}

func (m *modelImage) contains(addr uint64) bool {
	return m.start <= addr && addr < m.end && (addr < m.gap.Start || addr >= m.gap.End)
}

// symbol returns the symbol that covers an address, nil if none does.
func (m *modelImage) symbol(addr uint64) *modelSymbol {
	for i := range m.symbols {
		if s := &m.symbols[i]; s.start <= addr && addr < s.end {
			return s
		}
	}
	return nil
}

// isText reports whether the image is the core kernel or a module.
func (m *modelImage) isText() bool { return !m.IsFunction() }

// base returns the address that offsets into the image count from.
func (m *modelImage) base() uint64 {
	if m.isText() {
		return m.Base()
	}
	return m.start
}

// content returns the text whose hash is the file ID of code without a build id (section 4.3 of the contract): its symbol
// and, of a BPF function, its length and the digest of its lines.
func (m *modelImage) content() string {
	switch {
	case m.Origin != timeline.OriginBPF:
		return m.Name()
	case len(m.lines) == 0:
		return fmt.Sprintf("%s:%d", m.Name(), m.end-m.start)
	}
	return fmt.Sprintf("%s:%d:%s", m.Name(), m.end-m.start, m.Lines.Digest())
}

// A textWriter writes symbols, for symtab in the kernel's form, for the model as a list.
type textWriter struct {
	builder symtab.Builder
	symbols []modelSymbol
	at      uint64
}

// end ends the symbol that was written last at this address.
func (w *textWriter) end() {
	if n := len(w.symbols); n > 0 && w.symbols[n-1].end == 0 {
		w.symbols[n-1].end = w.at
	}
}

// bound writes a symbol that is no name.
func (w *textWriter) bound(typ byte, name string) {
	w.builder.Add(w.at, typ, []byte(name))
	w.end()
}

// function writes a function whose name is the first; further ones are aliases.
func (w *textWriter) function(size uint64, name string, aliases ...string) {
	w.end()
	w.builder.Add(w.at, 'T', []byte(name))
	for _, alias := range aliases {
		w.builder.Add(w.at, 't', []byte(alias))
	}
	w.symbols = append(w.symbols, modelSymbol{start: w.at, name: name, system: name, folded: len(aliases) > 0, others: aliases})
	w.at += size
}

// random writes some functions of all kinds.
func (w *textWriter) random(r *rand.Rand, prefix string, n int) {
	size := func() uint64 { return []uint64{1, 2, 5, 8, 16, 24, 32, 64}[r.Intn(8)] }
	for i := range n {
		name := fmt.Sprintf("%s_%d", prefix, i)
		switch r.Intn(10) {
		case 0: // padding before the function
			w.bound('t', "__pfx_"+name)
			w.at += 16
			w.function(size(), name)
		case 1: // its end is known: nothing can be named behind it
			w.function(size(), name)
			w.bound('r', "data_"+name)
			w.at += size()
		case 2:
			w.function(size(), name, "alias_"+name)
		case 3: // a twin in front of the plain name, which wins
			w.builder.Add(w.at, 't', []byte("__pi_"+name))
			w.function(size(), name)
			w.symbols[len(w.symbols)-1].others = []string{"__pi_" + name}
		case 4: // a local label is neither a name nor a bound
			w.function(16, name)
			w.at -= 4
			w.builder.Add(w.at, 't', []byte(".Llabel"))
			w.at += 4
		case 5:
			rust := fmt.Sprintf("_RNvC%d%s3new", len(name), name)
			w.function(size(), rust)
			w.symbols[len(w.symbols)-1].name = name + "::new"
		default:
			w.function(size(), name)
		}
	}
}

// thunks are names of indirect and return thunks (section 2.3 of the contract).
var thunks = []string{
	"__x86_indirect_thunk_rax", "__x86_return_thunk", "srso_return_thunk", "retbleed_return_thunk",
	"its_return_thunk", "__pi___x86_return_thunk", "__pi_srso_alias_return_thunk",
}

// newCore returns a core kernel.
func newCore(r *rand.Rand) *modelImage {
	base := 0xffffffff80000000 + uint64(r.Intn(64))<<21
	w := textWriter{at: base}
	w.bound('T', "_text")
	w.bound('T', "_stext")
	w.random(r, "core", 12)
	marks := &symtab.Landmarks{
		Arch: []string{"amd64", "arm64"}[r.Intn(2)], SharedTrampolines: r.Intn(2) == 0,
	}
	w.bound('T', "__entry_text_start")
	marks.Entry.Start = w.at
	w.random(r, "entry", 4)
	w.bound('T', "__entry_text_end")
	marks.Entry.End = w.at
	w.random(r, "mid", 3)
	marks.Fred = symtab.Range{Start: w.at, End: w.at + 32}
	w.function(32, "asm_fred_entrypoint_kernel")
	w.random(r, "after", 3)
	for _, thunk := range thunks {
		marks.Thunks = append(marks.Thunks, symtab.Range{Start: w.at, End: w.at + 16})
		w.function(16, thunk)
		if r.Intn(2) == 0 {
			w.random(r, "behind_"+thunk[2:], 1)
		}
	}
	w.random(r, "last", 4)
	w.bound('T', "_etext")
	gap := symtab.Range{Start: w.at, End: w.at + 0x1000}
	w.at = gap.End
	w.bound('T', "_sinittext")
	w.random(r, "init", 3)
	w.bound('T', "_einittext")
	return w.image(timeline.OriginKernel, timeline.KernelName, symtab.TextInfo{
		BuildID: hexID(r), Base: base, Start: base, End: w.at, Gap: gap, Landmarks: marks,
	})
}

// image ends what was written.
func (w *textWriter) image(origin timeline.Origin, name string, info symtab.TextInfo) *modelImage {
	info.FileID = buildid.FileID(info.BuildID)
	w.at = info.End
	w.end()
	built, err := w.builder.Build(info)
	if err != nil {
		panic(err)
	}
	return &modelImage{
		Image: timeline.NewImage(origin, name, built, timeline.Always), start: info.Start, end: info.End, gap: info.Gap,
		life: timeline.Always, symbols: w.symbols,
	}
}

func hexID(r *rand.Rand) string { return fmt.Sprintf("%016x%08x", r.Uint64(), r.Uint32()) }

// A build is a module that can be loaded anywhere.
type build struct {
	name, id string
	seed     int64
	below    uint64 // text in front of .text
	baseless bool   // where .text begins is not known
}

// load returns the module, loaded at the beginning of a page.
func (b build) load(start uint64) *modelImage {
	r := rand.New(rand.NewSource(b.seed))
	w := textWriter{at: start}
	if b.below > 0 {
		w.random(r, b.name+"_below", 1)
		w.bound('t', "__cfi_"+b.name)
		w.at = start + b.below
	} else if r.Intn(2) == 0 {
		w.at += 16 // nothing is named there
	}
	w.random(r, b.name, 4+r.Intn(4))
	end := (w.at + 0xff) &^ 0xff
	if r.Intn(3) == 0 {
		end = start + slotSize // it meets what is loaded behind it
	}
	info := symtab.TextInfo{BuildID: b.id, Base: start + b.below, Start: start, End: end}
	if b.baseless {
		info.BuildID, info.Base = "", 0
	}
	return w.image(timeline.OriginModule, b.name, info)
}

// newFunction returns code that has one name, or none.
func newFunction(origin timeline.Origin, name string, start uint64, size uint32) *modelImage {
	m := &modelImage{Image: timeline.NewFunction(origin, name, start, size, 0), start: start, end: start + uint64(size)}
	if name != "" {
		m.symbols = []modelSymbol{{start: start, end: m.end, name: name, system: name}}
	}
	return m
}

// describe makes the function part of a program, sometimes with lines.
func (m *modelImage) describe(r *rand.Rand, id uint32) {
	p := &timeline.Program{ID: id, Type: []string{"", "xdp", "tracing"}[r.Intn(3)], Tag: fmt.Sprintf("%016x", r.Uint64())}
	var b symtab.LinesBuilder
	if r.Intn(2) == 0 {
		for offset := uint32(0); offset < uint32(m.end-m.start); offset += uint32(16 + r.Intn(64)) {
			l := modelLine{offset: offset, line: int64(1 + r.Intn(900)), column: int64(r.Intn(80)), file: "prog.c"}
			b.Add(offset, uint32(l.line)<<10|uint32(l.column), unique.Make(l.file))
			m.lines = append(m.lines, l)
		}
	}
	m.Image = m.WithProgram(p, b.Build()).WithType(uint32(r.Intn(3)))
}
