// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"fmt"
	"math"
	"testing"
	"unique"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const (
	progMain   = 0xffffffffc0400000
	progSub    = progMain + 0x80 // right behind
	progTwin   = 0xffffffffc0401000
	trampoline = 0xffffffffc0402000
	kprobePage = 0xffffffffc0403000

	progTag = "0123456789abcdef"
	subTag  = "fedcba9876543210"
)

// bpfSnapshot returns the tables of a program with two functions and lines, of a program with the same tag
// and no lines, of a trampoline, and of a page of kprobes.
func bpfSnapshot(t testing.TB) *timeline.Snapshot {
	t.Helper()
	functions := timeline.NewBuilder(remember)
	functions.SetCertain(timeline.Forever)
	add := func(origin timeline.Origin, name string, start uint64, size uint32, p *timeline.Program, lines *symtab.Lines) {
		functions.Load(timeline.NewFunction(origin, name, start, size, math.MinInt64).WithProgram(p, lines))
	}
	program := &timeline.Program{ID: 42, Type: "xdp", Tag: progTag}
	add(timeline.OriginBPF, "bpf_prog_"+progTag+"_xdp_main", progMain, 0x80, program, mainLines())
	add(timeline.OriginBPF, "bpf_prog_"+subTag+"_helper", progSub, 0x40, program, subLines())
	add(timeline.OriginBPF, "bpf_prog_"+progTag+"_xdp_main", progTwin, 0x80, &timeline.Program{ID: 43, Tag: progTag}, nil)
	add(timeline.OriginTrampoline, "bpf_trampoline_6442482157", trampoline, 0x1000, nil, nil)
	add(timeline.OriginOOL, "kprobe_insn_page", kprobePage, 0x1000, nil, nil)
	return timeline.NewSnapshot(append(testSnapshot(t).Tables(), functions.Table())...)
}

// mainLines returns the lines of the main function of program 42.
func mainLines() *symtab.Lines {
	var b symtab.LinesBuilder
	b.Add(0, 10<<10|2, unique.Make("prog.c"))
	b.Add(0x20, 7<<10|9, unique.Make("inline.h"))
	b.Add(0x40, 11<<10|3, unique.Make("prog.c"))
	return b.Build()
}

func subLines() *symtab.Lines {
	var b symtab.LinesBuilder
	b.Add(0, 20<<10|1, unique.Make("prog.c"))
	return b.Build()
}

// contentOf returns the text whose hash is the file ID of a BPF function (contract 4.3).
func contentOf(symbol string, size uint32, lines *symtab.Lines) string {
	if lines == nil {
		return fmt.Sprintf("%s:%d", symbol, size)
	}
	return fmt.Sprintf("%s:%d:%s", symbol, size, lines.Digest())
}

// mainContent is contentOf the main function of program 42, which has lines, or of program 43, which has none.
func mainContent(id int64) string {
	if id == 42 {
		return contentOf("bpf_prog_"+progTag+"_xdp_main", 0x80, mainLines())
	}
	return contentOf("bpf_prog_"+progTag+"_xdp_main", 0x80, nil)
}

func mainFrame(address uint64, id int64, lines ...Line) Frame {
	f := Frame{
		Address: address, Type: "kernel",
		Mapping:    &Mapping{File: "[bpf]", FileID: buildid.ContentFileID(mainContent(id))},
		Attributes: map[string]any{"bpf.program.id": id, "bpf.program.tag": progTag},
	}
	if id == 42 {
		f.Attributes["bpf.program.type"] = "xdp"
	}
	for _, l := range lines {
		l.Name = "bpf_prog_" + progTag + "_xdp_main"
		l.System = l.Name
		f.Lines = append(f.Lines, l)
	}
	return f
}

func subFrame(address uint64, lines ...Line) Frame {
	f := Frame{
		Address: address, Type: "kernel",
		Mapping:    &Mapping{File: "[bpf]", FileID: buildid.ContentFileID(contentOf("bpf_prog_"+subTag+"_helper", 0x40, subLines()))},
		Attributes: map[string]any{"bpf.program.id": int64(42), "bpf.program.tag": progTag, "bpf.program.type": "xdp"},
	}
	for _, l := range lines {
		l.Name = "bpf_prog_" + subTag + "_helper"
		l.System = l.Name
		f.Lines = append(f.Lines, l)
	}
	return f
}

func TestContract_3_6_SourceLines(t *testing.T) {
	prog := func(line, column int64) Line { return Line{File: "prog.c", Line: line, Column: column} }
	inline := Line{File: "inline.h", Line: 7, Column: 9}
	m := rewritetest.NewMessage().Profile(nil, "").Sample(
		Frame{Address: progMain + 0x20},                                  // a leaf: this is where the CPU was
		Frame{Address: progMain + 0x20},                                  // a caller: the call is before
		Frame{Address: progMain + 0x41, Type: "kernel"},                  // the call is in the next line
		Frame{Address: progSub},                                          // its last instruction is a call
		Frame{Address: progSub + 0x40, Mapping: &Mapping{File: "[bpf]"}}, // the byte after it
	)
	got, counts := runWith(t, rewrite.Options{}, m.Profiles, bpfSnapshot(t))
	want := []Frame{
		mainFrame(0x20, 42, inline),
		mainFrame(0x1f, 42, prog(10, 2)),
		mainFrame(0x40, 42, prog(11, 3)),
		mainFrame(0x7f, 42, prog(11, 3)),
		subFrame(0x3f, prog(20, 1)),
	}
	assert.Equal(t, want, got[0].Stack)
	assert.Equal(t, rewrite.Counts{rewrite.OutcomeResolved: {timeline.OriginBPF: 5}}, counts)
}

func TestContract_4_3_BPFMappings(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "").
		Sample(Frame{Address: progTwin + 1}).
		Sample(Frame{Address: progMain + 1}).
		Sample(Frame{Address: trampoline + 1}).
		Sample(Frame{Address: kprobePage + 1}).
		Sample(Frame{Address: progSub + 0x40, Mapping: &Mapping{File: "[bpf]"}})
	relative := []Frame{
		mainFrame(1, 43, Line{}),
		mainFrame(1, 42, Line{File: "prog.c", Line: 10, Column: 2}),
		withName(Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "[bpf]", FileID: buildid.ContentFileID("bpf_trampoline_6442482157")}}, "bpf_trampoline_6442482157"),
		withName(Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "[__builtin__kprobes]", FileID: buildid.ContentFileID("kprobe_insn_page")}}, "kprobe_insn_page"),
		{Address: progSub + 0x40, Type: "kernel"}, // nothing is there
	}
	keep := make([]Frame, len(relative))
	for i, start := range []uint64{progTwin, progMain, trampoline, kprobePage} {
		f := relative[i]
		mapping := *f.Mapping
		mapping.Start, mapping.Limit = start, start+[]uint64{0x80, 0x80, 0x1000, 0x1000}[i]
		mapping.FileID = buildid.LoadedFileID([]string{mainContent(43), mainContent(42), nameIn(f), nameIn(f)}[i], start)
		f.Address, f.Mapping = f.Address+start, &mapping
		keep[i] = f
	}
	keep[4] = relative[4]
	for name, tt := range map[string]struct {
		opts     rewrite.Options
		want     []Frame
		mappings int
	}{
		"relative": {rewrite.Options{}, relative, 6},
		"keep":     {rewrite.Options{Addresses: rewrite.KeepAddresses}, keep, 6},
	} {
		t.Run(name, func(t *testing.T) {
			pd := copied(m.Profiles)
			got, counts := runWith(t, tt.opts, pd, bpfSnapshot(t))
			for i, s := range got {
				assert.Equal(t, tt.want[i], s.Stack[0], "sample %d", i)
			}
			assert.Equal(t, rewrite.Counts{
				rewrite.OutcomeResolved:   {timeline.OriginBPF: 2, timeline.OriginTrampoline: 1, timeline.OriginOOL: 1},
				rewrite.OutcomeUnresolved: {timeline.OriginKernel: 1},
			}, counts)
			assert.Equal(t, tt.mappings, pd.Dictionary().MappingTable().Len())
		})
	}
}

// TestBPFMappingOfTheMessageIsUsed: entries that another processor has written are not written again.
func TestBPFMappingOfTheMessageIsUsed(t *testing.T) {
	there := mainFrame(3, 42, Line{File: "prog.c", Line: 10, Column: 2})
	m := rewritetest.NewMessage().Profile(nil, "").Sample(there).Sample(Frame{Address: progMain + 4})
	out := copied(m.Profiles)
	got, _ := runWith(t, rewrite.Options{}, out, bpfSnapshot(t))
	there.Address = 4
	assert.Equal(t, there, got[1].Stack[0])
	for _, n := range []func(pprofile.ProfilesDictionary) int{
		func(d pprofile.ProfilesDictionary) int { return d.MappingTable().Len() },
		func(d pprofile.ProfilesDictionary) int { return d.FunctionTable().Len() },
		func(d pprofile.ProfilesDictionary) int { return d.AttributeTable().Len() },
		func(d pprofile.ProfilesDictionary) int { return d.StringTable().Len() },
	} {
		assert.Equal(t, n(m.Profiles.Dictionary()), n(out.Dictionary()))
	}
}
