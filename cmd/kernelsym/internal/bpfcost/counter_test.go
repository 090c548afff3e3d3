// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// core is a kernel at an address, with entry code at offsets from 0x1000 up to 0x2000.
var core = &timeline.Image{Text: &symtab.Text{
	Base: 0xffffffff81000000,
	Landmarks: &symtab.Landmarks{Arch: "amd64", Entry: symtab.Range{Start: 0xffffffff81001000, End: 0xffffffff81002000},
		Thunks: []symtab.Range{{Start: 0xffffffff81003000, End: 0xffffffff81003020}}},
}}

var (
	vmlinux = &rewritetest.Mapping{File: "vmlinux"}
	bpfCode = &rewritetest.Mapping{File: "[bpf]"}
)

func kernel(offset uint64, name string) rewritetest.Frame {
	return rewritetest.Frame{
		Address: offset, Mapping: vmlinux, Type: "kernel", Lines: []rewritetest.Line{{Name: name, System: name}},
	}
}

func code(symbol string) rewritetest.Frame {
	f := kernel(0x10, symbol)
	f.Mapping = bpfCode
	return f
}

func program(id int64, symbol string, line int64) rewritetest.Frame {
	f := code(symbol)
	f.Attributes = map[string]any{"bpf.program.id": id, "bpf.program.tag": "00000000000000aa", "bpf.program.type": "xdp"}
	if line != 0 {
		f.Lines[0].File, f.Lines[0].Line = "prog.c", line
	}
	return f
}

var (
	helper   = kernel(0x5000, "htab_map_update_elem")
	memory   = kernel(0x5100, "memcpy")
	timer    = kernel(0x5200, "sysvec_apic_timer_interrupt")
	entry    = kernel(0x1000, "asm_sysvec_apic_timer_interrupt")
	lastByte = kernel(0x1fff, "asm_common_interrupt")
	behind   = kernel(0x2000, "first function behind the entry code")
	syscall  = kernel(0x1800, "entry_SYSCALL_64_after_hwframe")
	read     = kernel(0x6000, "vfs_read")
	enter    = kernel(0x7000, "__bpf_prog_enter_recur")
	thunk    = kernel(0x3010, "__x86_indirect_thunk_rax")
	tramp    = code("bpf_trampoline_6442536467")

	a      = program(1, "bpf_prog_00000000000000aa_main", 10)
	aSub   = program(1, "bpf_prog_00000000000000bb_sub", 20)
	b      = program(2, "bpf_prog_00000000000000aa_other", 0)
	noID   = code("bpf_prog_00000000000000cc_listed")
	aFirst = func() rewritetest.Frame { f := a; f.Address = 0; return f }()
	noName = rewritetest.Frame{Address: 0x30, Mapping: bpfCode, Type: "kernel"}
	user   = rewritetest.Frame{Address: 0x7f0000000123, Type: "native"}
)

type counts struct{ self, total, interrupted int64 }

// count counts one stack, and returns the nonzero counts by name.
func count(t *testing.T, core *timeline.Image, stack ...rewritetest.Frame) (by map[string]counts, running int64) {
	t.Helper()
	c := NewCounter()
	require.NoError(t, c.Add(rewritetest.NewMessage().Profile(nil, "scope").Sample(stack...).Profiles, core))
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
			got, running := count(t, core, tt.stack...)
			assert.Equal(t, tt.want, got)
			isRunning := int64(0)
			for _, c := range tt.want {
				isRunning = max(isRunning, c.total)
			}
			assert.Equal(t, isRunning, running, "each sample counts once")
		})
	}
}

// TestWithoutEntryCode verifies that only leaves count if interrupts cannot be distinguished from
// calls.
func TestWithoutEntryCode(t *testing.T) {
	for _, core := range []*timeline.Image{nil, {Text: &symtab.Text{Landmarks: &symtab.Landmarks{}}}} {
		got, running := count(t, core, helper, a)
		assert.Empty(t, got)
		assert.Zero(t, running)
		got, _ = count(t, core, a, helper, b)
		assert.Equal(t, map[string]counts{"a": {1, 1, 0}}, got)

		c := NewCounter()
		require.NoError(t, c.Add(rewritetest.NewMessage().Profile(nil, "scope").Sample(a).Profiles, core))
		rows := (&Sources{Counter: c, PerCPU: 10}).Rows(ByTotal)
		require.Len(t, rows, 1)
		assert.Equal(t, Sampled{Self: Share{1, 10}}, rows[0].Sampled)
	}
}

// TestNameIsThatOfTheProgram verifies that the name is not that of one of the program's functions.
func TestNameIsThatOfTheProgram(t *testing.T) {
	c := NewCounter()
	require.NoError(t, c.Add(rewritetest.NewMessage().Profile(nil, "scope").Sample(aSub).Profiles, core))
	cost := c.costs[Key{ID: 1}]
	assert.Empty(t, cost.Name)
	require.NoError(t, c.Add(rewritetest.NewMessage().Profile(nil, "scope").Sample(aSub, a).Profiles, core))
	assert.Equal(t, "main", cost.Name)
	assert.Equal(t, "00000000000000aa", cost.Tag)
	assert.Equal(t, "xdp", cost.Type)
	assert.Equal(t, int64(2), cost.Self)
}

// TestHottestLine counts the line that the program was in, including while the program called other
// code.
func TestHottestLine(t *testing.T) {
	c := NewCounter()
	call := program(1, "bpf_prog_00000000000000aa_main", 11)
	require.NoError(t, c.Add(rewritetest.NewMessage().Profile(nil, "scope").
		Sample(a).Sample(aSub, a).Sample(helper, call).Sample(memory, helper, call).Sample(timer, entry, a).Sample(timer, entry, a).
		Profiles, core))
	line, n := c.costs[Key{ID: 1}].Hottest()
	assert.Equal(t, Line{"prog.c", 11}, line)
	assert.Equal(t, int64(2), n)
	_, n = new(Cost).Hottest()
	assert.Zero(t, n)
}

func TestInvalidMessages(t *testing.T) {
	message := func() *rewritetest.Message { return rewritetest.NewMessage().Profile(nil, "scope").Sample(a) }
	stack := message()
	stack.LastSample().SetStackIndex(99)
	require.ErrorIs(t, NewCounter().Add(stack.Profiles, core), profilefile.ErrInvalid)
	location := message()
	location.Profiles.Dictionary().StackTable().At(1).LocationIndices().SetAt(0, 99)
	require.ErrorIs(t, NewCounter().Add(location.Profiles, core), profilefile.ErrInvalid)
	attribute := message()
	attribute.Profiles.Dictionary().LocationTable().At(1).AttributeIndices().Append(99)
	require.ErrorIs(t, NewCounter().Add(attribute.Profiles, core), profilefile.ErrInvalid)
}
