// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// A kernel without padding before its functions, with entry code and thunkText.
const (
	entryText    = text + 0x1000 // entry_page_fault, to 0x40, and entry_interrupt, to 0x80
	entryTextEnd = entryText + 0x80
	fredEntry    = text + 0x1100 // asm_fred_entrypoint_kernel, to 0x40
	thunkText    = text + 0x1200 // three ranges of them, each of 0x20 bytes, with 0x20 of others behind
	handler      = text + 0x1300 // what runs after an entry, to 0x1400
)

// marks returns the landmarks of that kernel.
func marks() *symtab.Landmarks {
	return &symtab.Landmarks{
		Arch:  "amd64",
		Entry: symtab.Range{Start: entryText, End: entryTextEnd},
		Fred:  symtab.Range{Start: fredEntry, End: fredEntry + 0x40},
		Thunks: []symtab.Range{
			{Start: thunkText, End: thunkText + 0x20}, {Start: thunkText + 0x40, End: thunkText + 0x60}, {Start: thunkText + 0x80, End: thunkText + 0xa0},
		},
	}
}

func markedCore(t testing.TB, m *symtab.Landmarks) *timeline.Image {
	t.Helper()
	return timelinetest.NewImage(t, timelinetest.Text{
		Name: timeline.KernelName, Origin: timeline.OriginKernel, BuildID: kernelID,
		Base: text, Start: text, End: text + 0x2000, Landmarks: m,
	}, []timelinetest.Symbol{
		{Offset: 0x20, Name: "a"},
		{Offset: 0x50, Name: "b"},
		{Offset: 0x80, Name: "c"},
		{Offset: 0x100, Name: "d"},
		{Offset: 0x180, Name: "__pfx_e"},
		{Offset: 0x190, Name: "e"},
		{Offset: entryText - text, Name: "entry_page_fault"},
		{Offset: entryText - text + 0x40, Name: "entry_interrupt"},
		{Offset: entryTextEnd - text, Name: "behind_entry"},
		{Offset: fredEntry - text, Name: "asm_fred_entrypoint_kernel"},
		{Offset: fredEntry - text + 0x40, Name: "behind_fred"},
		{Offset: thunkText - text, Name: "__x86_return_thunk"},
		{Offset: thunkText - text + 0x20, Name: "between"},
		{Offset: thunkText - text + 0x40, Name: "srso_safe_ret"},
		{Offset: thunkText - text + 0x60, Name: "between2"},
		{Offset: thunkText - text + 0x80, Name: "__x86_indirect_thunk_rax"},
		{Offset: thunkText - text + 0xa0, Name: "behind_thunks"},
		{Offset: handler - text, Name: "handler"},
		{Offset: handler - text + 0x100, Name: "last"},
	}...)
}

func markedSnapshot(t testing.TB, m *symtab.Landmarks) *timeline.Snapshot {
	t.Helper()
	module := timelinetest.NewImage(t, timelinetest.Text{
		Name: "ext4", Origin: timeline.OriginModule, BuildID: ext4ID, Base: ext4, Start: ext4, End: ext4 + ext4Size,
	}, []timelinetest.Symbol{
		{Offset: 0, Name: "ext4_read"},
		{Offset: 0x100, Name: "ext4_write"},
	}...)
	return timeline.NewSnapshot(timeline.NewTable(markedCore(t, m)), timeline.NewTable(module))
}

// sent returns the frame that a producer sends for an ip: as the eBPF profiler does, unchanged, or relative
// in a mapping that is not in looked-up form.
var sent = map[string]func(ip uint64) (f Frame, scope string){
	"absolute":      func(ip uint64) (Frame, string) { return Frame{Address: ip, Type: "kernel"}, "scope" },
	"eBPF profiler": func(ip uint64) (Frame, string) { return Frame{Address: ip - 1, Type: "kernel"}, ebpfScope },
	"eBPF profiler, as a program": func(ip uint64) (Frame, string) {
		return Frame{Address: ip - 1, Type: "kernel"}, "/opt/ebpf-profiler"
	},
	"parca-agent": func(ip uint64) (Frame, string) {
		f := Frame{Address: ip - 1 - text, Type: "kernel", Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: kernelID}}
		if ip >= ext4 {
			f.Address, f.Mapping = ip-1-ext4, &Mapping{File: "[kernel.kallsyms]", BuildID: ext4ID}
		}
		return f, "parca-agent"
	},
	"relative": func(ip uint64) (Frame, string) {
		f := Frame{Address: ip - text, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: kernelID, Limit: 1 << 30}}
		if ip >= ext4 {
			f.Address, f.Mapping = ip-ext4, &Mapping{File: "ext4.ko", Start: 0, Limit: 1 << 20}
		}
		return f, "scope"
	},
	"the eBPF profiler's, relative": func(ip uint64) (Frame, string) {
		f := Frame{Address: ip - 1 - text, Type: "kernel", Mapping: vmlinux()}
		if ip >= ext4 {
			f.Address, f.Mapping = ip-1, nil
		}
		return f, ebpfScope
	},
}

// namesOf returns the names of a stack of ips that a kind of producer sends.
func namesOf(t *testing.T, s *timeline.Snapshot, send func(uint64) (Frame, string), ips ...uint64) []string {
	t.Helper()
	var stack []Frame
	scope := ""
	for _, ip := range ips {
		var f Frame
		f, scope = send(ip)
		stack = append(stack, f)
	}
	m := rewritetest.NewMessage().Profile(nil, scope).Sample(stack...)
	got, _ := runWith(t, rewrite.Options{}, m.Profiles, s)
	return stackNames(got)[0]
}

// TestContract_2_3_InterruptedFrames: the frame after one in entry code was interrupted at its ip, even at
// the first byte of a function.
func TestContract_2_3_InterruptedFrames(t *testing.T) {
	const c, d = text + 0x80, text + 0x100
	for name, send := range sent {
		t.Run(name, func(t *testing.T) {
			s := markedSnapshot(t, marks())
			for _, tt := range []struct {
				name string
				ips  []uint64
				want []string
			}{
				{"a call", []uint64{handler + 8, handler + 0x90, c}, []string{"handler", "handler", "b"}},
				{"entry code", []uint64{handler + 8, entryText + 0x20, c}, []string{"handler", "entry_page_fault", "c"}},
				{"its second byte", []uint64{handler + 8, entryText + 1, c}, []string{"handler", "entry_page_fault", "c"}},
				{"its end", []uint64{handler + 8, entryTextEnd, c}, []string{"handler", "entry_interrupt", "c"}},
				{"behind its end", []uint64{handler + 8, entryTextEnd + 1, c}, []string{"handler", "behind_entry", "b"}},
				{"FRED", []uint64{handler + 8, fredEntry + 0x20, c}, []string{"handler", "asm_fred_entrypoint_kernel", "c"}},
				{"the end of FRED", []uint64{handler + 8, fredEntry + 0x40, c}, []string{"handler", "asm_fred_entrypoint_kernel", "c"}},
				{"behind FRED", []uint64{handler + 8, fredEntry + 0x41, c}, []string{"handler", "behind_fred", "b"}},
				{"a leaf in entry code", []uint64{entryText + 0x20, c}, []string{"entry_page_fault", "c"}},
				{"a leaf at its first byte", []uint64{entryText, c}, []string{"entry_page_fault", "c"}},
				{"a leaf at its end", []uint64{entryTextEnd, c}, []string{"behind_entry", "b"}},
				{"entry code that calls entry code", []uint64{entryText + 0x20, entryText + 0x40, c}, []string{"entry_page_fault", "entry_page_fault", "c"}},
				{"what called the interrupted", []uint64{entryText + 0x20, c, d}, []string{"entry_page_fault", "c", "c"}},
				{"twice", []uint64{entryText + 8, c, entryText + 0x50, d, d}, []string{"entry_page_fault", "c", "entry_interrupt", "d", "c"}},
				{"in a module", []uint64{entryText + 8, ext4 + 0x100, ext4 + 0x100}, []string{"entry_page_fault", "ext4_write", "ext4_read"}},
				{"in padding", []uint64{entryText + 8, text + 0x188}, []string{"entry_page_fault", ""}},
				{"behind padding", []uint64{handler + 8, text + 0x190, text + 0x180}, []string{"handler", "e", "d"}},
			} {
				assert.Equal(t, tt.want, namesOf(t, s, send, tt.ips...), tt.name)
			}
			none := markedSnapshot(t, nil)
			assert.Equal(t, []string{"handler", "entry_page_fault", "b"},
				namesOf(t, none, send, handler+8, entryText+0x20, c), "a kernel without landmarks")
		})
	}
}

// TestContract_2_3_UserFramesBetween: only the frame right before decides.
func TestContract_2_3_UserFramesBetween(t *testing.T) {
	user := Frame{Address: 0x1234, Type: "native"}
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(Frame{Address: entryText + 8, Type: "kernel"}, user, Frame{Address: text + 0x80, Type: "kernel"})
	got, _ := runWith(t, rewrite.Options{}, m.Profiles, markedSnapshot(t, marks()))
	assert.Equal(t, []string{"entry_page_fault", "", "b"}, stackNames(got)[0])
}

// TestContract_2_3_NamedEntryFrames: a frame that came with a name decides in the same way.
func TestContract_2_3_NamedEntryFrames(t *testing.T) {
	named := withName(Frame{Address: entryText + 8, Type: "kernel"}, "entry_page_fault")
	thunk := withName(Frame{Address: thunkText + 8, Type: "kernel"}, "__x86_return_thunk")
	for _, before := range []Frame{named, thunk} {
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(before, Frame{Address: text + 0x80, Type: "kernel"})
		got, _ := runWith(t, rewrite.Options{}, m.Profiles, markedSnapshot(t, marks()))
		assert.Equal(t, "c", nameIn(got[0].Stack[1]))
	}
}

// TestContract_2_3_JumpTargets: a thunk jumps to the first byte of a function; any other ip is a return
// address.
func TestContract_2_3_JumpTargets(t *testing.T) {
	const b, c = text + 0x50, text + 0x80
	for name, send := range sent {
		t.Run(name, func(t *testing.T) {
			s := markedSnapshot(t, marks())
			for i, thunk := range []string{"__x86_return_thunk", "srso_safe_ret", "__x86_indirect_thunk_rax"} {
				at := thunkText + uint64(i)*0x40
				for _, tt := range []struct {
					name string
					ips  []uint64
					want []string
				}{
					{"the first byte", []uint64{at + 8, c}, []string{thunk, "c"}},
					{"the second byte", []uint64{at + 8, c + 1}, []string{thunk, "c"}},
					{"a return address inside", []uint64{at + 8, c - 1}, []string{thunk, "b"}},
					{"of a module", []uint64{at, ext4 + 0x100}, []string{thunk, "ext4_write"}},
					{"entered by a call", []uint64{handler + 8, at + 0x10, b, c}, []string{"handler", thunk, "b", "b"}},
					{"what lies between thunkText", []uint64{at + 0x28, c}, []string{[]string{"between", "between2", "behind_thunks"}[i], "b"}},
					{"thunkText that jump to thunkText", []uint64{at + 8, thunkText + 0x40, c}, []string{thunk, "srso_safe_ret", "c"}},
				} {
					assert.Equal(t, tt.want, namesOf(t, s, send, tt.ips...), "%s: %s", thunk, tt.name)
				}
			}
		})
	}
}

// TestContract_2_3_JumpTargetsOfFunctions: BPF functions and trampolines are jumped to, too.
func TestContract_2_3_JumpTargetsOfFunctions(t *testing.T) {
	functions := timeline.NewBuilder(remember)
	loadAt(functions, "before", slot, 0x100, nowBoot-10_000*ms)
	loadAt(functions, "target", slot+0x100, 0x100, nowBoot-10_000*ms)
	functions.SetCertain(timeline.Forever)
	s := timeline.NewSnapshot(append(markedSnapshot(t, marks()).Tables(), functions.Table())...)
	for _, name := range []string{"absolute", "eBPF profiler"} {
		assert.Equal(t, []string{"srso_safe_ret", "target"}, namesOf(t, s, sent[name], thunkText+0x44, slot+0x100), name)
		assert.Equal(t, []string{"handler", "before"}, namesOf(t, s, sent[name], handler+0x44, slot+0x100), name)
	}
}

// TestContract_2_2_LookedUpForm: an address in kernelsym's own form is looked up unchanged, at any place in a
// stack, and decides about the next frame like any other. The eBPF profiler's addresses are not in this form,
// although their mappings look the same.
func TestContract_2_2_LookedUpForm(t *testing.T) {
	s := markedSnapshot(t, marks())
	at := func(addr uint64) Frame { return Frame{Address: addr, Type: "kernel", Mapping: vmlinux()} }
	user := Frame{Address: 0x1234, Type: "native"}
	m := rewritetest.NewMessage().
		Profile(nil, "scope").Sample(user, at(0x7f), at(0x80)).Sample(at(entryText-text), at(0x80)).Sample(at(thunkText-text), at(0x80)).
		Sample(at(entryText-text), Frame{Address: text + 0x80, Type: "kernel"}).
		Sample(user, at(entryTextEnd-text-1), Frame{Address: text + 0x80, Type: "kernel"}).
		Sample(user, at(entryTextEnd-text), Frame{Address: text + 0x80, Type: "kernel"}).
		Profile(nil, ebpfScope).Sample(user, at(0x7f), at(0x80)).Sample(at(0x7f), at(entryText-text), at(0x7f))
	got, _ := runWith(t, rewrite.Options{}, m.Profiles, s)
	assert.Equal(t, [][]string{
		{"", "b", "c"}, {"entry_page_fault", "c"}, {"__x86_return_thunk", "c"},
		{"entry_page_fault", "c"}, {"", "entry_interrupt", "c"}, {"", "behind_entry", "b"},
		{"", "b", "c"}, {"c", "entry_page_fault", "c"},
	}, stackNames(got))
	assert.Equal(t, at(0x7f).Address, got[0].Stack[1].Address)
	assert.Equal(t, at(0x80).Address, got[0].Stack[2].Address)
	assert.Equal(t, at(0x7f).Address, got[7].Stack[2].Address)
}

// TestContract_2_2_FirstByteOfTheText: the eBPF profiler's address is then below the base and
// has no relative form.
func TestContract_2_2_FirstByteOfTheText(t *testing.T) {
	core := timelinetest.NewImage(t, timelinetest.Text{
		Name: timeline.KernelName, BuildID: kernelID, Base: text, Start: text, End: text + 0x1000,
	}, timelinetest.Symbol{Name: "first"})
	for _, opts := range []rewrite.Options{{}, {All: true}, {Addresses: rewrite.KeepAddresses}} {
		m := rewritetest.NewMessage().Profile(nil, ebpfScope).Sample(Frame{Address: text - 1, Type: "kernel"})
		got, _ := runWith(t, opts, m.Profiles, timeline.NewSnapshot(timeline.NewTable(core)))
		want := withName(Frame{Address: text - 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux"}}, "first")
		if opts.Addresses == rewrite.KeepAddresses {
			want.Mapping.BuildID = kernelID
			want.Mapping.Start, want.Mapping.Limit, want.Mapping.FileID = text, text+0x1000, core.LoadedFileID()
		}
		assert.Equal(t, want, got[0].Stack[0])
	}
}

// TestContract_2_3_UnknownRole: if a frame may be in entry code or a thunk, and nothing gives its place, then
// the frame behind it has a name only if both roles give the same one.
func TestContract_2_3_UnknownRole(t *testing.T) {
	kernel := func(file string) *Mapping { return &Mapping{File: file} }
	for _, tt := range []struct {
		name    string
		before  Frame
		unknown bool
	}{
		{"perf's kernel", Frame{Address: 0x1008, Type: "kernel", Mapping: kernel("[kernel.kallsyms]")}, true},
		{"perf's kernel, by its name", Frame{Address: 0x1008, Mapping: kernel("[kernel.kallsyms]")}, true},
		{"no mapping", Frame{Address: 0x1008, Type: "kernel"}, true},
		{"perf's kernel with an id", Frame{Address: handler - text, Type: "kernel", Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: kernelID}}, false},
		{"an absolute address", Frame{Address: handler + 8, Type: "kernel", Mapping: kernel("[kernel.kallsyms]")}, false},
		{"another kernel's id", Frame{Address: 0x1008, Type: "kernel", Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: "0123456789abcdef"}}, false},
		{"a module that is not known", Frame{Address: 0x1008, Type: "kernel", Mapping: kernel("btrfs.ko")}, false},
		{"a BPF program", Frame{Address: 0x1008, Type: "kernel", Mapping: kernel("[bpf]")}, false},
		{"a guest", Frame{Address: 0x1008, Type: "kernel", Mapping: kernel("[guest.kernel.kallsyms]")}, false},
		{"user code", Frame{Address: 0x1008, Type: "native"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := Frame{Address: ext4 + 0x100, Type: "kernel"} // the first byte of ext4_write, behind ext4_read
			m := rewritetest.NewMessage().Profile(nil, "scope").Sample(tt.before, first)
			got, counts := runWith(t, rewrite.Options{}, m.Profiles, markedSnapshot(t, marks()))
			want := "ext4_read"
			if tt.unknown {
				want = ""
				assert.Equal(t, first, got[0].Stack[1])
				assert.Equal(t, 2, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel])
			}
			assert.Equal(t, want, nameIn(got[0].Stack[1]))
		})
	}
	before := Frame{Address: 0x1008, Type: "kernel", Mapping: kernel("[kernel.kallsyms]")}
	inside := Frame{Address: ext4 + 0x108, Type: "kernel"}
	m := rewritetest.NewMessage().Profile(nil, ebpfScope).
		Sample(before, inside). // it is written the same way for both roles
		Sample(withName(Frame{Address: 0x10, Type: "kernel"}, "bpf_prog_x"), Frame{Address: ext4 + 0xff, Type: "kernel"})
	got, _ := runWith(t, rewrite.Options{}, m.Profiles, markedSnapshot(t, marks()))
	assert.Equal(t, [][]string{{"", "ext4_write"}, {"bpf_prog_x", "ext4_read"}}, stackNames(got))
	none := timeline.NewSnapshot(markedSnapshot(t, marks()).Tables()[1:]...)
	m = rewritetest.NewMessage().Profile(nil, "scope").Sample(before, inside)
	got, _ = runWith(t, rewrite.Options{}, m.Profiles, none)
	assert.Equal(t, "ext4_write", nameIn(got[0].Stack[1]), "without the core kernel, ip-1 and ip are in one function")
}

// TestContract_2_3_LinesWithoutTheCore verifies that a BPF frame that may have been interrupted has source lines only if they are
// the same at ip-1 and at ip.
func TestContract_2_3_LinesWithoutTheCore(t *testing.T) {
	tables := slices.DeleteFunc(bpfSnapshot(t).Tables(), func(of *timeline.Table) bool { return timeline.NewSnapshot(of).Core() != nil })
	for offset, want := range map[uint64]string{0x1f: "prog.c", 0x20: "", 0x21: "inline.h"} {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(
			Frame{Address: text + 0x10, Type: "kernel"}, Frame{Address: progMain + offset, Type: "kernel"})
		got, _ := runWith(t, rewrite.Options{}, m.Profiles, timeline.NewSnapshot(tables...))
		require.Len(t, got[0].Stack[1].Lines, 1)
		assert.Equal(t, want, got[0].Stack[1].Lines[0].File, "%#x", offset)
		assert.Contains(t, got[0].Stack[1].Lines[0].Name, "xdp_main")
	}
}
