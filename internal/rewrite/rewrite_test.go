package rewrite

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	Frame   = rewritetest.Frame
	Mapping = rewritetest.Mapping
	Line    = rewritetest.Line
)

// The kernel of these tests. Its functions begin at these offsets from the text,
// and what is not named here is padding.
const (
	text     = 0xffffffff81000000
	textSize = 0x1000
	kernelID = "4a5a9b0affb66c437abcd455d2738af879985fa9"

	offA    = 0x020 // a, to 0x40; then 0x10 bytes of padding
	offB    = 0x050 // b, to 0x80
	offC    = 0x080 // c, right behind b, to 0x100; then padding to 0x200
	offRust = 0x300 // core::fmt::write, to 0x400
	offE    = 0x400 // e, which has an alias, to 0x500
	offLast = 0x500 // last, to the end

	ext4     = 0xffffffffc0200000
	ext4Size = 0x800 // ext4_read, to 0x100, and ext4_write, to the end
	ext4ID   = "deadbeef00112233445566778899aabbccddeeff"

	odd     = 0xffffffffc0300400 // a module without build id, with code below .text
	oddLow  = 0xffffffffc0300000 // odd_cold, to 0x100
	oddSize = 0x100              // odd, from .text on
)

var rustName = "_RNvNtC4core3fmt5write"

func testModule(t testing.TB, info symtab.ModuleInfo, add func(add func(offset uint64, name string))) *symtab.Module {
	t.Helper()
	var s symtab.Sorter
	add(func(offset uint64, name string) { s.Add(info.Start+offset, 't', []byte(name)) })
	info.FileID, info.Valid = buildid.FileID(info.BuildID), symtab.Always
	m, err := s.Build(info)
	require.NoError(t, err)
	return m
}

func testSnapshot(t testing.TB) *symtab.Snapshot {
	t.Helper()
	core := testModule(t, symtab.ModuleInfo{
		Name: symtab.KernelName, Origin: symtab.OriginKernel, BuildID: kernelID,
		Base: text, Start: text, End: text + textSize,
	}, func(add func(uint64, string)) {
		add(0, "_text")
		add(offA, "a")
		add(0x40, "__pfx_b")
		add(offB, "b")
		add(offC, "c")
		add(0x100, "__entry_text_end")
		add(0x200, "d")
		add(offRust, rustName)
		add(offE, "e")
		add(offE, "e_alias")
		add(offLast, "last")
	})
	module := testModule(t, symtab.ModuleInfo{
		Name: "ext4", Origin: symtab.OriginModule, BuildID: ext4ID,
		Base: ext4, Start: ext4, End: ext4 + ext4Size,
	}, func(add func(uint64, string)) {
		add(0, "ext4_read")
		add(0x100, "ext4_write")
	})
	noBuild := testModule(t, symtab.ModuleInfo{
		Name: "odd_module", Origin: symtab.OriginModule,
		Base: odd, Start: oddLow, End: odd + oddSize,
	}, func(add func(uint64, string)) {
		add(0, "odd_cold")
		add(0x100, "__pfx_odd")
		add(odd-oddLow, "odd")
	})
	return symtab.NewSnapshot(
		symtab.NewTable([]*symtab.Module{core}),
		symtab.NewTable([]*symtab.Module{module, noBuild}),
	)
}

// Mappings as they are written.
func vmlinux() *Mapping {
	return &Mapping{File: "vmlinux", Limit: textSize, BuildID: kernelID, FileID: buildid.FileID(kernelID)}
}

func ext4Mapping() *Mapping {
	return &Mapping{File: "ext4", Limit: ext4Size, BuildID: ext4ID, FileID: buildid.FileID(ext4ID)}
}

func named(f Frame, name string) Frame {
	f.Lines = []Line{{Name: name, System: name}}
	return f
}

func copied(pd pprofile.Profiles) pprofile.Profiles {
	c := pprofile.NewProfiles()
	pd.CopyTo(c)
	return c
}

func marshal(t testing.TB, pd pprofile.Profiles) []byte {
	t.Helper()
	data, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(copied(pd))
	require.NoError(t, err)
	return data
}

// run rewrites a message, checks all that must hold for any message, and returns
// what became of its samples.
func run(t testing.TB, opts Options, pd pprofile.Profiles) ([]rewritetest.Sample, Counts) {
	t.Helper()
	return runWith(t, opts, pd, testSnapshot(t))
}

func runWith(
	t testing.TB, opts Options, pd pprofile.Profiles, snapshot *symtab.Snapshot,
) ([]rewritetest.Sample, Counts) {
	t.Helper()
	require.NoError(t, rewritetest.CheckValid(pd), "before")
	before := copied(pd)
	readOnly := copied(pd)
	readOnly.MarkReadOnly()

	r := New(opts)
	got, counts := r.Rewrite(pd, Known{Snapshot: snapshot})
	if pd != got {
		t.Error("another object")
	}
	require.NoError(t, rewritetest.CheckValid(pd))
	require.NoError(t, rewritetest.CheckRewritten(before, pd))
	after := marshal(t, pd)

	again, _ := r.Rewrite(pd, Known{Snapshot: snapshot})
	require.True(t, bytes.Equal(after, marshal(t, again)), "4.5: processing the output again changes nothing")

	fromReadOnly, _ := r.Rewrite(readOnly, Known{Snapshot: snapshot})
	require.True(t, bytes.Equal(after, marshal(t, fromReadOnly)), "a copy of what is read-only is rewritten")
	require.True(t, bytes.Equal(marshal(t, before), marshal(t, readOnly)), "what is read-only was not changed")
	return rewritetest.Samples(pd), counts
}

// leaf rewrites a frame that is the leaf of the only stack.
func leaf(t testing.TB, opts Options, f Frame) (Frame, Counts) {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f)
	samples, counts := run(t, opts, m.Profiles)
	return samples[0].Stack[0], counts
}

// caller does the same with one that called another.
func caller(t testing.TB, opts Options, f Frame) Frame {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: 0x42, Type: "native"}, f)
	samples, _ := run(t, opts, m.Profiles)
	return samples[0].Stack[1]
}

func one(o Outcome, origin symtab.Origin) (c Counts) {
	c[o][origin] = 1
	return c
}

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
		{"b: name that begins with vmlinux", mapped("vmlinux-to-elf"), false},
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
			got, counts := leaf(t, Options{}, tt.in)
			if !tt.want {
				assert.Equal(t, tt.in, got)
				assert.Zero(t, counts)
				return
			}
			assert.Equal(t, named(Frame{Address: offA + 4, Mapping: vmlinux(), Type: "kernel"}, "a"), got)
			assert.Equal(t, one(OutcomeResolved, symtab.OriginKernel), counts)
		})
	}
	// Two that no symbol covers, but that are looked up.
	for _, f := range []Frame{{Address: 0xffffffffff601000}, {Address: 0xffffffffff5fffff}} {
		got, counts := leaf(t, Options{}, f)
		assert.Equal(t, f, got)
		assert.Equal(t, one(OutcomeUnresolved, symtab.OriginKernel), counts)
	}
}

func TestContract_1_1_GuestsAreLeftAlone(t *testing.T) {
	for _, typ := range []string{"", "kernel"} {
		f := Frame{Address: text + offA + 4, Type: typ, Mapping: &Mapping{File: "[guest.kernel.kallsyms]"}}
		got, counts := leaf(t, Options{}, f)
		assert.Equal(t, f, got)
		assert.Equal(t, one(OutcomeForeign, symtab.OriginKernel), counts)
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
			want := named(Frame{Address: offA + 4, Mapping: vmlinux(), Type: "kernel"}, "a")
			got, counts := leaf(t, Options{}, f)
			if tt.want {
				assert.Equal(t, want, got)
				assert.Equal(t, one(OutcomeResolved, symtab.OriginKernel), counts)
			} else {
				assert.Equal(t, f, got)
				assert.Zero(t, counts)
			}
			got, _ = leaf(t, Options{All: true}, f)
			assert.Equal(t, want, got, "rewrite: all")
		})
	}
}

func TestRewriteAllKeepsLinesThatKnowMore(t *testing.T) {
	f := Frame{Address: text + offA + 4, Type: "kernel", Lines: []Line{
		{Name: "inlined", System: "inlined", File: "a.h", Line: 12},
		{Name: "a", System: "a", File: "a.c", Line: 34},
	}}
	got, _ := leaf(t, Options{All: true}, f)
	assert.Equal(t, f.Lines, got.Lines)
}

func TestRewriteAllKeepsNamesItDoesNotKnow(t *testing.T) {
	for _, f := range []Frame{
		named(Frame{Address: text + 0x110, Type: "kernel"}, "from_elsewhere"),       // in padding
		named(Frame{Address: 0xffffffffa0000000, Type: "kernel"}, "from_elsewhere"), // in nothing
		named(Frame{Address: 0x42, Type: "kernel"}, "bpf_prog_1234_f"),              // 2.5
	} {
		for _, opts := range []Options{{All: true}, {All: true, Label: true}} {
			got, counts := leaf(t, opts, f)
			assert.Equal(t, f, got)
			assert.Zero(t, counts)
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
	samples, counts := run(t, Options{}, m.Profiles)
	assert.Equal(t, "b", samples[0].Stack[0].Lines[0].Name)
	assert.Equal(t, []Frame{user, python}, samples[0].Stack[1:])
	assert.Equal(t, []Frame{user, python}, samples[1].Stack)
	assert.Equal(t, one(OutcomeResolved, symtab.OriginKernel), counts)
}

func TestContract_2_Forms(t *testing.T) {
	ko := func(file, id string) *Mapping { return &Mapping{File: file, BuildID: id} }
	for _, tt := range []struct {
		name string
		in   Frame
		want string // module, offset and function
	}{
		{"absolute", Frame{Address: text + offB + 1}, "vmlinux+0x51 b"},
		{"absolute in a module", Frame{Address: ext4 + 0x101}, "ext4+0x101 ext4_write"},
		{"absolute, mapping of the kernel", Frame{Address: ext4 + 0x101, Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: kernelID}}, "ext4+0x101 ext4_write"},
		{"relative by build id", Frame{Address: offB + 1, Mapping: ko("whatever", kernelID)}, "vmlinux+0x51 b"},
		{"relative by build id in capitals", Frame{Address: offB + 1, Mapping: ko("whatever", "4A5A9B0AFFB66C437ABCD455D2738AF879985FA9")}, "vmlinux+0x51 b"},
		{"relative by name", Frame{Address: offB + 1, Mapping: ko("vmlinux", "")}, "vmlinux+0x51 b"},
		{"relative by path", Frame{Address: offB + 1, Mapping: ko("/boot/vmlinux-6.1", "")}, "vmlinux+0x51 b"},
		{"relative by perf's name", Frame{Address: offB + 1, Mapping: ko("[kernel.kallsyms]_text", "")}, "vmlinux+0x51 b"},
		{"module by name", Frame{Address: 0x101, Mapping: ko("ext4", "")}, "ext4+0x101 ext4_write"},
		{"module by file", Frame{Address: 0x101, Mapping: ko("/lib/modules/6.1/ext4.ko.xz", "")}, "ext4+0x101 ext4_write"},
		{"module by brackets", Frame{Address: 0x101, Mapping: ko("[ext4]", "")}, "ext4+0x101 ext4_write"},
		{"module by file with dash", Frame{Address: 0x01, Mapping: ko("odd-module.ko", "")}, "odd_module+0x1 odd"},
		{"build id goes before name", Frame{Address: 0x101, Mapping: ko("vmlinux", ext4ID)}, "ext4+0x101 ext4_write"},
		{"relative without mapping", Frame{Address: 0x101}, ""},
		{"relative in a library", Frame{Address: 0x101, Mapping: ko("libc.so.6", "")}, ""},
		{"relative to no module", Frame{Address: 0x101, Mapping: ko("btrfs.ko", "")}, ""},
		{"relative, past the module", Frame{Address: ext4Size, Mapping: ko("ext4.ko", "")}, ""},
		{"relative, into another module", Frame{Address: odd - ext4 + 1, Mapping: ko("ext4.ko", "")}, ""},
		{"relative, wraps around", Frame{Address: 1<<63 - 1, Mapping: ko("ext4.ko", "")}, ""},
		{"absolute, past the module", Frame{Address: ext4 + ext4Size}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Type = "kernel"
			got, _ := leaf(t, Options{}, tt.in)
			if tt.want == "" {
				assert.Equal(t, tt.in, got)
				return
			}
			assert.Equal(t, tt.want, got.Mapping.File+hexOffset(got.Address)+" "+got.Lines[0].Name)
		})
	}
}

func TestContract_2_1_AnotherBuildStopsIt(t *testing.T) {
	for _, f := range []Frame{
		{Address: text + offB + 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: "0123"}},
		{Address: text + offB + 1, Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: "0123"}},
		{Address: offB + 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: "0123"}},
		{Address: 0x101, Mapping: &Mapping{File: "ext4.ko", BuildID: "0123"}},
	} {
		got, counts := leaf(t, Options{Label: true}, f)
		assert.Equal(t, f, got)
		assert.Equal(t, one(OutcomeForeign, symtab.OriginKernel), counts)
	}
}

// TestBuildThatCannotBeCompared: where the kernel does not tell its build id (no
// sysfs), one on a mapping is no reason to leave its frames without a name.
func TestBuildThatCannotBeCompared(t *testing.T) {
	core := testModule(t, symtab.ModuleInfo{
		Name: symtab.KernelName, Base: text, Start: text, End: text + textSize,
	}, func(add func(uint64, string)) { add(0, "a") })
	snapshot := symtab.NewSnapshot(symtab.NewTable([]*symtab.Module{core}))
	absolute := Frame{Address: text + 1, Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: "0123"}}
	relative := Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: "0123"}}
	module := Frame{Address: 1, Mapping: &Mapping{File: "ext4.ko", BuildID: "4567"}}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(absolute, relative, module)
	samples, counts := runWith(t, Options{}, m.Profiles, snapshot)
	assert.Equal(t, [][]string{{"a", "a", ""}}, stackNames(samples))
	assert.Equal(t, &Mapping{File: "vmlinux", Limit: textSize}, samples[0].Stack[0].Mapping)
	assert.Equal(t, module, samples[0].Stack[2])
	assert.Equal(t, 1, counts[OutcomeUnresolved][symtab.OriginKernel])
}

// TestModuleWithoutBuildID: no build id is that of a module that has none, unless none
// can be had at all.
func TestModuleWithoutBuildID(t *testing.T) {
	mapping := &Mapping{File: "odd_module", BuildID: "1234567890123456789012345678901234567890"}
	for _, addr := range []uint64{8, odd + 9} {
		f := Frame{Address: addr, Mapping: mapping, Type: "kernel"}
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f)
		_, counts := New(Options{}).Rewrite(m.Profiles, Known{Snapshot: testSnapshot(t)})
		assert.Equal(t, f, rewritetest.FrameAt(m.Profiles.Dictionary(), 1))
		assert.Equal(t, 1, counts[OutcomeForeign][symtab.OriginKernel])
	}
}

// TestLongBuildIDIsForeign, and not compared with any.
func TestLongBuildIDIsForeign(t *testing.T) {
	f := Frame{Address: offA + 1, Mapping: &Mapping{File: "vmlinux", BuildID: strings.Repeat("A", maxBuildID+1)}, Type: "kernel"}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f)
	_, counts := New(Options{}).Rewrite(m.Profiles, Known{Snapshot: testSnapshot(t)})
	assert.Equal(t, f, rewritetest.FrameAt(m.Profiles.Dictionary(), 1))
	assert.Equal(t, 1, counts[OutcomeForeign][symtab.OriginKernel])
}

func TestContract_2_2_Callers(t *testing.T) {
	for _, tt := range []struct {
		name         string
		offset       uint64
		leaf, caller string
	}{
		{"inside", offB + 5, "b", "b"},
		{"first byte, after another function", offC, "c", "b"},
		{"second byte", offC + 1, "c", "c"},
		{"first byte, after padding", offB, "b", "b"},
		{"second byte, after padding", offB + 1, "b", "b"},
		{"one past the end, padding follows", 0x40, "", "a"},
		{"two past the end", 0x41, "", ""},
		{"last byte", 0x3f, "a", "a"},
		{"first of the text", 0, "", ""},
		{"the end of the text", textSize, "", "last"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := Frame{Address: text + tt.offset, Type: "kernel"}
			got, _ := leaf(t, Options{}, in)
			assert.Equal(t, tt.leaf, nameOf(got), "leaf")
			got = caller(t, Options{}, in)
			assert.Equal(t, tt.caller, nameOf(got), "caller")
			if tt.caller != "" {
				assert.Equal(t, tt.offset, got.Address, "the address is what it was")
			}
		})
	}
}

func TestContract_2_3_LeafOfEBPFProfiler(t *testing.T) {
	for _, scope := range []string{"go.opentelemetry.io/ebpf-profiler", "go.opentelemetry.io/ebpf-profiler/collector"} {
		m := rewritetest.NewMessage().Profile(nil, scope).
			Sample(Frame{Address: offB - 1, Type: "kernel", Mapping: vmlinux()}). // interrupted at the first byte of b
			Sample(Frame{Address: offC - 1, Type: "kernel", Mapping: vmlinux()}). // of c
			Sample(Frame{Address: 0x42, Type: "native"}, Frame{Address: offC - 1, Type: "kernel", Mapping: vmlinux()})
		samples, _ := run(t, Options{}, m.Profiles)
		assert.Equal(t, "b", nameOf(samples[0].Stack[0]))
		assert.Equal(t, "c", nameOf(samples[1].Stack[0]))
		assert.Equal(t, "b", nameOf(samples[2].Stack[1]), "as a caller")
		assert.Equal(t, uint64(offB-1), samples[0].Stack[0].Address)
	}
}

func TestContract_2_5_BPFFramesOfEBPFProfiler(t *testing.T) {
	f := named(Frame{Address: 0x24, Type: "kernel"}, "bpf_prog_6deef7357e7b4530_sd_fw_ingress")
	for _, opts := range []Options{{}, {All: true}} {
		m := rewritetest.NewMessage().Profile(nil, "go.opentelemetry.io/ebpf-profiler").Sample(f)
		samples, _ := run(t, opts, m.Profiles)
		assert.Equal(t, f, samples[0].Stack[0])
	}
}

func TestContract_3_4_Names(t *testing.T) {
	got, _ := leaf(t, Options{}, Frame{Address: text + offRust + 1, Type: "kernel"})
	assert.Equal(t, []Line{{Name: "core::fmt::write", System: rustName}}, got.Lines)
	got, _ = leaf(t, Options{}, Frame{Address: text + offE, Type: "kernel"})
	assert.Equal(t, []Line{{Name: "e", System: "e"}}, got.Lines)
}

func nameOf(f Frame) string {
	if len(f.Lines) == 0 {
		return ""
	}
	return f.Lines[0].Name
}

func hexOffset(v uint64) string { return fmt.Sprintf("+%#x", v) }
