// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"math"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	base = 0xffffffff81000000
	end  = base + 0x10000
)

// newKernel returns a kernel with entry code and a thunk, with BPF programs, and with a trampoline.
func newKernel(t *testing.T) *timeline.Snapshot {
	t.Helper()
	core := timelinetest.NewImage(t, timelinetest.Text{
		Origin: timeline.OriginKernel, Base: base, Start: base, End: end,
		Landmarks: &symtab.Landmarks{
			Arch: "amd64", Entry: symtab.Range{Start: base + 0x1000, End: base + 0x2000},
			Thunks: []symtab.Range{{Start: base + 0x3000, End: base + 0x3020}},
		},
	}, []timelinetest.Symbol{
		{Offset: 0x1000, Name: "asm_sysvec_apic_timer_interrupt"},
		{Offset: 0x1800, Name: "entry_SYSCALL_64"},
		{Offset: 0x1f00, Name: "asm_common_interrupt"},
		{Offset: 0x2000, Name: "first function behind the entry code"},
		{Offset: 0x3000, Name: "__x86_indirect_thunk_rax"},
		{Offset: 0x3020, Name: "behind the thunk"},
		{Offset: 0x5000, Name: "htab_map_update_elem"},
		{Offset: 0x5100, Name: "memcpy"},
		{Offset: 0x5200, Name: "sysvec_apic_timer_interrupt"},
		{Offset: 0x6000, Name: "vfs_read"},
		{Offset: 0x7000, Name: "__bpf_prog_enter_recur"},
	}...)
	functions := timeline.NewBuilder(timeline.Limits{TTL: time.Minute, MaxEntries: 100})
	functions.SetCertain(timeline.Forever)
	load := func(origin timeline.Origin, name string, start uint64, program *timeline.Program, lines *symtab.Lines) {
		functions.Load(timeline.NewFunction(origin, name, start, 0x100, math.MinInt64).WithProgram(program, lines))
	}
	first := &timeline.Program{ID: 1, Tag: "00000000000000aa", Type: "xdp"}
	second := &timeline.Program{ID: 2, Tag: "00000000000000aa", Type: "xdp"}
	load(timeline.OriginBPF, "bpf_prog_00000000000000aa_main", main, first, linesFrom(0x10, 10, 11))
	load(timeline.OriginBPF, "bpf_prog_00000000000000bb_sub", sub, first, linesFrom(0, 20))
	load(timeline.OriginBPF, "bpf_prog_00000000000000aa_other", another, second, nil)
	load(timeline.OriginBPF, "bpf_prog_00000000000000cc_listed", listed, nil, nil)
	load(timeline.OriginBPF, "bpf_prog_00000000000000cc_same", same, nil, nil)
	load(timeline.OriginBPF, "bpf_prog_00000000000000dd_same", same+0x1000, nil, nil)
	load(timeline.OriginTrampoline, "bpf_trampoline_6442536467", trampoline, nil, nil)
	return timeline.NewSnapshot(timeline.NewTable(core), functions.Table())
}

// The addresses of BPF functions. Those of the first program have lines.
const (
	main       = 0xffffffffc0001000 // from its byte 0x10 on, line 10, and from 0x30 on, line 11
	sub        = 0xffffffffc0002000 // line 20
	another    = 0xffffffffc0003000
	listed     = 0xffffffffc0004000
	same       = 0xffffffffc0005000 // and in the next page, another of this name
	trampoline = 0xffffffffc0007000
	nothing    = 0xffffffffc0008000 // where nothing is loaded
)

// linesFrom returns the lines of a function, each for 0x20 bytes, from an offset on.
func linesFrom(offset uint32, numbers ...uint32) *symtab.Lines {
	var b symtab.LinesBuilder
	for i, number := range numbers {
		b.Add(offset+uint32(i)*0x20, number<<10, unique.Make("prog.c"))
	}
	return b.Build()
}

func at(address uint64) rewritetest.Frame {
	return rewritetest.Frame{Address: address, Type: "kernel"}
}

var (
	helper   = at(base + 0x5008)
	memory   = at(base + 0x5108)
	timer    = at(base + 0x5208)
	entry    = at(base + 0x1008)
	lastByte = at(base + 0x1fff)
	behind   = at(base + 0x2000)
	syscall  = at(base + 0x1808)
	read     = at(base + 0x6008)
	enter    = at(base + 0x7008)
	thunk    = at(base + 0x3010)
	tramp    = at(trampoline + 0x10)

	a      = at(main + 0x18)
	aCall  = at(main + 0x38)
	aFirst = at(main)
	noLine = at(main + 0x8)
	aSub   = at(sub + 0x10)
	b      = at(another + 0x10)
	noID   = at(listed + 0x10)
	noName = at(nothing)
	user   = rewritetest.Frame{Address: 0x7f0000000123, Type: "native"}
)

// named returns a message of stacks of that kernel.
func named(t *testing.T, stacks ...[]rewritetest.Frame) *rewrite.Named {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "scope")
	for _, stack := range stacks {
		m.Sample(stack...)
	}
	n, err := rewrite.New(rewrite.Options{}).Name(m.Profiles, rewrite.Sources{Snapshot: func() *timeline.Snapshot { return newKernel(t) }})
	require.NoError(t, err)
	return n
}

type counts struct{ self, total, interrupted int64 }

// count counts one stack, and returns the nonzero counts by name.
func count(t *testing.T, stack ...rewritetest.Frame) (by map[string]counts, running int64) {
	t.Helper()
	c := NewCounter()
	c.Add(named(t, stack))
	all, running := c.Samples()
	assert.Equal(t, int64(1), all)
	by = make(map[string]counts)
	for key, cost := range c.costs {
		if got := (counts{cost.Self, cost.Total, cost.Interrupted}); got != (counts{}) {
			name := cost.Name
			if key.ID == 1 {
				name = "a"
			}
			by[name] = got
		}
	}
	return by, running
}

func TestCounter(t *testing.T) {
	self, called, interrupted := counts{1, 1, 0}, counts{0, 1, 0}, counts{0, 0, 1}
	for _, tt := range []struct {
		name  string
		stack []rewritetest.Frame
		want  map[string]counts
	}{
		{"no program", []rewritetest.Frame{read, syscall, user}, map[string]counts{}},
		{"leaf", []rewritetest.Frame{a, read, syscall, user}, map[string]counts{"a": self}},
		{"leaf in a further function", []rewritetest.Frame{aSub, a, read}, map[string]counts{"a": self}},
		{"in a helper", []rewritetest.Frame{memory, helper, a, read}, map[string]counts{"a": called}},
		{"in a helper without a name", []rewritetest.Frame{noName, a, read}, map[string]counts{"a": called}},
		{"a callback that a helper calls", []rewritetest.Frame{aSub, helper, a}, map[string]counts{"a": self}},
		{"a program in a helper of another", []rewritetest.Frame{helper, b, tramp, helper, a}, map[string]counts{"other": called, "a": called}},
		{"interrupted", []rewritetest.Frame{timer, entry, a, read}, map[string]counts{"a": interrupted}},
		{"interrupted, leaf in the entry code", []rewritetest.Frame{entry, a}, map[string]counts{"a": interrupted}},
		{"interrupted in a helper", []rewritetest.Frame{timer, lastByte, helper, a}, map[string]counts{"a": interrupted}},
		{"interrupted twice", []rewritetest.Frame{timer, entry, helper, timer, entry, a}, map[string]counts{"a": interrupted}},
		{"behind the entry code", []rewritetest.Frame{behind, a}, map[string]counts{"a": called}},
		{"a program in an interrupt of another", []rewritetest.Frame{b, timer, entry, a}, map[string]counts{"other": self, "a": interrupted}},
		{"a program in an interrupt of itself", []rewritetest.Frame{helper, aSub, timer, entry, a}, map[string]counts{"a": called}},
		{"a program in a system call of user code", []rewritetest.Frame{a, read, syscall, user}, map[string]counts{"a": self}},
		{"trampoline", []rewritetest.Frame{tramp, read}, map[string]counts{"bpf_trampoline_6442536467": self}},
		{"trampoline around a program", []rewritetest.Frame{memory, enter, tramp, read}, map[string]counts{"bpf_trampoline_6442536467": called}},
		{"trampoline around the function", []rewritetest.Frame{memory, read, tramp, read}, map[string]counts{}},
		{"trampoline, interrupted", []rewritetest.Frame{timer, entry, tramp, read}, map[string]counts{}},
		{"bridge, interrupted", []rewritetest.Frame{timer, entry, enter, tramp, read}, map[string]counts{"bpf_trampoline_6442536467": interrupted}},
		{"trampoline below its program", []rewritetest.Frame{a, tramp, read}, map[string]counts{"a": self}},
		{"about to be called", []rewritetest.Frame{thunk, aFirst, read}, map[string]counts{}},
		{"in its first instruction", []rewritetest.Frame{aFirst, read}, map[string]counts{"a": self}},
		{"in a thunk that it called", []rewritetest.Frame{thunk, a, read}, map[string]counts{"a": called}},
		{"in a function that a thunk called", []rewritetest.Frame{helper, aFirst, read}, map[string]counts{"a": called}},
		{"no id", []rewritetest.Frame{memory, noID}, map[string]counts{"listed": called}},
		{"no name", []rewritetest.Frame{noName, read}, map[string]counts{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, running := count(t, tt.stack...)
			assert.Equal(t, tt.want, got)
			isRunning := int64(0)
			for _, c := range tt.want {
				isRunning = max(isRunning, c.total)
			}
			assert.Equal(t, isRunning, running, "each sample counts once")
		})
	}
}

// TestNameIsThatOfTheProgram verifies that the name is not that of one of the program's functions.
func TestNameIsThatOfTheProgram(t *testing.T) {
	c := NewCounter()
	c.Add(named(t, stack{aSub}))
	cost := c.costs[Key{ID: 1}]
	assert.Empty(t, cost.Name)
	c.Add(named(t, stack{aSub, a}))
	assert.Equal(t, "main", cost.Name)
	assert.Equal(t, "00000000000000aa", cost.Tag)
	assert.Equal(t, "xdp", cost.Type)
	assert.Equal(t, int64(2), cost.Self)
}

// TestHottestLine counts the line that the program was in, including while the program called other
// code.
func TestHottestLine(t *testing.T) {
	c := NewCounter()
	c.Add(named(t, stack{a}, stack{aSub, a}, stack{helper, aCall}, stack{memory, helper, aCall}, stack{timer, entry, a}, stack{timer, entry, a}))
	line, n := c.costs[Key{ID: 1}].Hottest()
	assert.Equal(t, Line{"prog.c", 11}, line)
	assert.Equal(t, int64(2), n)
	_, n = new(Cost).Hottest()
	assert.Zero(t, n)
}
