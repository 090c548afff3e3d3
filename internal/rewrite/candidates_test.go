// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

func TestContract_1_1_Candidates(t *testing.T) {
	mapped := func(file string) Frame { return Frame{Address: text + offA + 4, Mapping: &Mapping{File: file}} }
	typed := func(typ string, f Frame) Frame { f.Type = typ; return f }
	for _, tt := range []struct {
		name string
		in   Frame
		want bool
	}{
		{"a: type kernel", Frame{Address: text + offA + 4, Type: "kernel"}, true},
		{"a: type kernel, whatever the mapping", typed("kernel", mapped("/usr/lib/libc.so.6")), true},
		{"a: type native", typed("native", mapped("[kernel.kallsyms]")), false},
		{"a: type of no known kind", typed("kernel2", mapped("[kernel.kallsyms]")), false},
		{"a: type go", Frame{Address: text + offA + 4, Type: "go"}, false},
		{"b: perf's kernel", mapped("[kernel.kallsyms]"), true},
		{"b: perf's kernel text", mapped("[kernel.kallsyms]_text"), true},
		{"b: kernel", mapped("[kernel]"), true},
		{"b: vmlinux", mapped("vmlinux"), true},
		{"b: path to vmlinux", mapped("/usr/lib/debug/boot/vmlinux-6.1.0-32-amd64"), true},
		{"b: name that begins with vmlinux-", mapped("vmlinux-6.1.0"), true},
		{"b: name that begins with vmlinux", mapped("vmlinux.old"), false},
		{"b: directory called vmlinux", mapped("/opt/vmlinux/bin/tool"), false},
		{"b: bpf", mapped("[bpf]"), true},
		{"b: bpf program", mapped("bpf_prog_6deef7357e7b4530_sd_fw_ingress"), true},
		{"b: .ko", mapped("/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko"), true},
		{"b: .ko.gz", mapped("ext4.ko.gz"), true},
		{"b: .ko.xz", mapped("ext4.ko.xz"), true},
		{"b: .ko.zst", mapped("/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.zst"), true},
		{"b: .kot", mapped("/usr/bin/x.kot"), false},
		{"b: a loaded module", mapped("[ext4]"), true},
		{"b: a module that is not loaded", mapped("[btrfs]"), false},
		{"b: the core kernel is no module", mapped("[vmlinux]"), false},
		{"b: vdso", mapped("[vdso]"), false},
		{"b: brackets", mapped("[]"), false},
		{"b: a library", mapped("/usr/lib/libc.so.6"), false},
		{"c: kernel half", Frame{Address: text + offA + 4}, true},
		{"c: kernel half, mapping without name", Frame{Address: text + offA + 4, Mapping: &Mapping{Start: 1, Limit: 2}}, true},
		{"c: user half", Frame{Address: 0x7fffffffffff}, false},
		{"c: top of user half", Frame{Address: 1<<63 - 1}, false},
		{"c: vsyscall", Frame{Address: 0xffffffffff600000}, false},
		{"c: end of vsyscall", Frame{Address: 0xffffffffff600fff}, false},
		{"c: perf's context mark", Frame{Address: 1<<64 - 128}, false},
		{"c: last page", Frame{Address: 1<<64 - 4096}, false},
		{"c: address 0", Frame{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, counts := leaf(t, rewrite.Options{}, tt.in)
			if !tt.want {
				assert.Equal(t, tt.in, got)
				assert.Zero(t, counts)
				return
			}
			assert.Equal(t, withName(Frame{Address: offA + 4, Mapping: vmlinux(), Type: "kernel"}, "a"), got)
			assert.Equal(t, one(rewrite.OutcomeResolved, timeline.OriginKernel), counts)
		})
	}
	// Two addresses that no symbol covers, but that are candidates.
	for _, f := range []Frame{{Address: 0xffffffffff601000}, {Address: 0xffffffffff5fffff}} {
		got, counts := leaf(t, rewrite.Options{}, f)
		f.Type = "kernel"
		assert.Equal(t, f, got)
		assert.Equal(t, one(rewrite.OutcomeUnresolved, timeline.OriginKernel), counts)
	}
}

func TestContract_1_1_GuestsAreLeftAlone(t *testing.T) {
	for _, typ := range []string{"", "kernel"} {
		f := Frame{Address: text + offA + 4, Type: typ, Mapping: &Mapping{File: "[guest.kernel.kallsyms]"}}
		got, counts := leaf(t, rewrite.Options{}, f)
		assert.Equal(t, f, got)
		assert.Equal(t, one(rewrite.OutcomeForeign, timeline.OriginKernel), counts)
	}
}

// TestContract_1_2_TimeInGuestsIsLeftAlone: the receiver "kernelstack" has one frame for time in guests, with
// a name and without an address.
func TestContract_1_2_TimeInGuestsIsLeftAlone(t *testing.T) {
	f := Frame{Type: "kernel", Lines: []Line{{Name: "[guest]", System: "[guest]"}}}
	for _, opts := range []rewrite.Options{{}, {Addresses: rewrite.KeepAddresses}, {Label: true}, {All: true}, {All: true, Label: true}} {
		got, counts := leaf(t, opts, f)
		assert.Equal(t, f, got)
		assert.Equal(t, one(rewrite.OutcomeNamed, timeline.OriginKernel), counts)
	}
}

func TestContract_1_2_Unsymbolized(t *testing.T) {
	lines := func(names ...string) (l []Line) {
		for _, n := range names {
			l = append(l, Line{Name: n})
		}
		return l
	}
	for _, tt := range []struct {
		name  string
		lines []Line
		want  bool // unsymbolized
	}{
		{"no line", nil, true},
		{"no function", lines(""), true},
		{"UNKNOWN", lines("UNKNOWN"), true},
		{"[unknown]", lines("[unknown]"), true},
		{"[symbolication_failed]", lines("[symbolication_failed]"), true},
		{"[kernel.kallsyms]", lines("[kernel.kallsyms]"), true},
		{"[[kernel.kallsyms]]", lines("[[kernel.kallsyms]]"), true},
		{"0x and digits", lines("0xffffffff81000024"), true},
		{"0x and capital digits", lines("0xFFFFFFFF81000024"), true},
		{"16 digits", lines("ffffffff81000024"), true},
		{"15 digits", lines("fffffff81000024"), false},
		{"17 digits", lines("0ffffffff81000024"), false},
		{"0x alone", lines("0x"), false},
		{"0x and 64 digits", lines("0x" + strings.Repeat("0", 64)), true},
		{"0x and 65 digits", lines("0x" + strings.Repeat("0", 65)), false},
		{"0x and more", lines("0x12g"), false},
		{"16 letters", lines("ffffffff8100002g"), false},
		{"placeholders", lines("UNKNOWN", "[unknown]"), true},
		{"a name", lines("schedule"), false},
		{"a name among placeholders", lines("UNKNOWN", "schedule"), false},
		{"a system name", []Line{{System: "schedule"}}, false},
		{"a system name that is none", []Line{{System: "UNKNOWN"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Frame{Address: text + offA + 4, Type: "kernel", Lines: tt.lines}
			want := withName(Frame{Address: offA + 4, Mapping: vmlinux(), Type: "kernel"}, "a")
			got, counts := leaf(t, rewrite.Options{}, f)
			if tt.want {
				assert.Equal(t, want, got)
				assert.Equal(t, one(rewrite.OutcomeResolved, timeline.OriginKernel), counts)
			} else {
				assert.Equal(t, f, got)
				assert.Equal(t, one(rewrite.OutcomeNamed, timeline.OriginKernel), counts)
			}
			got, _ = leaf(t, rewrite.Options{All: true}, f)
			assert.Equal(t, want, got, "rewrite: all")
		})
	}
}

// TestContract_1_2_AllKeepsLinesThatKnowMore: such lines stay even if they have only one of the two names.
func TestContract_1_2_AllKeepsLinesThatKnowMore(t *testing.T) {
	inlined := Line{Name: "inlined", System: "inlined", File: "a.h", Line: 12}
	for _, tt := range []struct {
		offset    uint64
		outermost Line
		keeps     bool
	}{
		{offA, Line{Name: "a", System: "a", File: "a.c", Line: 34}, true},
		{offA, Line{Name: "a", File: "a.c", Line: 34}, true},
		{offA, Line{Name: "a"}, true},
		{offA, Line{System: "a", File: "a.c", Line: 34}, true},
		{offRust, Line{Name: "core::fmt::write", File: "a.rs", Line: 34}, true},
		{offRust, Line{Name: rustName, File: "a.rs", Line: 34}, true},
		{offA, Line{Name: "b", System: "a", File: "a.c", Line: 34}, false},
		{offA, Line{Name: "other", File: "a.c", Line: 34}, false},
	} {
		f := Frame{Address: text + tt.offset + 4, Type: "kernel", Lines: []Line{inlined, tt.outermost}}
		got, counts := leaf(t, rewrite.Options{All: true}, f)
		if tt.keeps {
			assert.Equal(t, f.Lines, got.Lines)
		} else {
			assert.Equal(t, []Line{{Name: "a", System: "a"}}, got.Lines)
		}
		assert.Equal(t, tt.offset+4, got.Address)
		assert.Equal(t, vmlinux(), got.Mapping)
		assert.Equal(t, one(rewrite.OutcomeResolved, timeline.OriginKernel), counts)
	}
}

func TestContract_1_2_AllKeepsNamesItDoesNotKnow(t *testing.T) {
	for _, f := range []Frame{
		withName(Frame{Address: text + 0x110, Type: "kernel"}, "from_elsewhere"), // in padding
		withName(Frame{Address: text + 0x110}, "from_elsewhere"),                 // it gets the type
		withName(Frame{Address: 0xffffffffa0000000, Mapping: &Mapping{File: "[kernel]"}}, "from_elsewhere"),
		withName(Frame{Address: 0xffffffffa0000000, Type: "kernel"}, "from_elsewhere"), // in nothing
		withName(Frame{Address: 0x42, Type: "kernel"}, "bpf_prog_1234_f"),              // contract 2.5
	} {
		for _, opts := range []rewrite.Options{{All: true}, {All: true, Label: true}} {
			got, counts := leaf(t, opts, f)
			f.Type = "kernel"
			assert.Equal(t, f, got)
			assert.Equal(t, one(rewrite.OutcomeNamed, timeline.OriginKernel), counts)
		}
	}
}

func TestContract_1_3_OthersComeOutAsTheyWere(t *testing.T) {
	user := Frame{
		Address: 0x1234, Type: "native",
		Mapping:    &Mapping{File: "/usr/bin/app", Start: 0x1000, Limit: 0x2000, BuildID: "ab", FileID: "cd"},
		Attributes: map[string]any{"x": "y"},
	}
	python := Frame{Type: "cpython", Lines: []Line{{Name: "f", File: "f.py", Line: 3}}}
	m := rewritetest.NewMessage().Profile(map[string]any{"service.name": "app"}, "scope").
		Sample(Frame{Address: text + offB + 1, Type: "kernel"}, user, python).
		Sample(user, python)
	samples, counts := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, "b", samples[0].Stack[0].Lines[0].Name)
	assert.Equal(t, []Frame{user, python}, samples[0].Stack[1:])
	assert.Equal(t, []Frame{user, python}, samples[1].Stack)
	assert.Equal(t, one(rewrite.OutcomeResolved, timeline.OriginKernel), counts)
}
