// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// TestContract_4_1_LookedUpAddresses: a frame gets the address that was looked up. Exceptions are the eBPF
// profiler's frames, which have ip-1 throughout, and relative addresses that are final.
func TestContract_4_1_LookedUpAddresses(t *testing.T) {
	user := Frame{Address: 1, Type: "native"}
	loaded := func(f Frame) Frame { // relative, in a mapping that says where it was loaded
		mapping := *f.Mapping
		mapping.Limit = 1 << 20
		f.Mapping = &mapping
		return f
	}
	b, c := Frame{Address: text + offB + 9, Type: "kernel"}, Frame{Address: text + offC, Type: "kernel"}
	relative := Frame{Address: offC, Type: "kernel", Mapping: vmlinux()}
	module := Frame{Address: 0x101, Type: "kernel", Mapping: &Mapping{File: "[ext4]"}}
	for _, tt := range []struct {
		name         string
		frame        Frame
		scope        string
		exact, calls string // name and offset
	}{
		{"absolute", b, "scope", "b+0x59", "b+0x58"},
		{"absolute, at the first byte", c, "scope", "c+0x80", "b+0x7f"},
		{"of the eBPF profiler", b, ebpfScope, "b+0x59", "b+0x59"},
		{"of the eBPF profiler, before the first byte", Frame{Address: text + offC - 1, Type: "kernel"}, ebpfScope, "c+0x7f", "b+0x7f"},
		{"in looked-up form", relative, "scope", "c+0x80", "c+0x80"},
		{"relative, loaded", loaded(relative), "scope", "c+0x80", "b+0x7f"},
		{"relative, of the eBPF profiler", relative, ebpfScope, "c+0x80", "c+0x80"},
		{"a module by its name", module, "scope", "ext4_write+0x101", "ext4_write+0x101"},
		{"a module by its name, loaded", loaded(module), "scope", "ext4_write+0x101", "ext4_write+0x100"},
	} {
		m := rewritetest.NewMessage().Profile(nil, tt.scope).Sample(tt.frame, user).Sample(user, tt.frame)
		got, _ := run(t, rewrite.Options{}, m.Profiles)
		for i, want := range []string{tt.exact, tt.calls} {
			f := got[i].Stack[i]
			assert.Equal(t, want, nameIn(f)+hexOffset(f.Address), tt.name)
			assert.Zero(t, f.Mapping.Limit, tt.name)
		}
		m = rewritetest.NewMessage().Profile(nil, tt.scope).Sample(tt.frame, user).Sample(user, tt.frame)
		got, _ = run(t, rewrite.Options{Addresses: rewrite.KeepAddresses}, m.Profiles)
		for i := range got {
			want := tt.frame.Address // as it came
			if tt.frame.Mapping != nil && tt.frame.Mapping.Limit != 0 && tt.scope == "scope" {
				want -= uint64(i) // its mapping has become one of looked-up form
			}
			assert.Equal(t, want, got[i].Stack[i].Address, tt.name)
		}
	}
}

// TestContract_4_1_AddressIsPartOfTheAnswer: a location that is exact in one stack and a caller in another is
// split even if it has the same name in both, unless addresses are kept.
func TestContract_4_1_AddressIsPartOfTheAnswer(t *testing.T) {
	user, b := Frame{Address: 1, Type: "native"}, Frame{Address: text + offB + 9, Type: "kernel"}
	for _, tt := range []struct {
		scope  string
		opts   rewrite.Options
		copies int
	}{
		{"scope", rewrite.Options{}, 1},
		{"scope", rewrite.Options{Addresses: rewrite.KeepAddresses}, 0},
		{ebpfScope, rewrite.Options{}, 0},
	} {
		m := rewritetest.NewMessage().Profile(nil, tt.scope).Sample(b, user).Sample(user, b)
		locations := m.Profiles.Dictionary().LocationTable().Len()
		got, _ := run(t, tt.opts, m.Profiles)
		assert.Equal(t, [][]string{{"b", ""}, {"", "b"}}, stackNames(got))
		assert.Equal(t, locations+tt.copies, m.Profiles.Dictionary().LocationTable().Len(), "%+v", tt)
	}
}

// TestContract_4_2_TextBelowTheBase: such code has no relative form. Its mapping has a name but no IDs,
// because these would mean other addresses after each boot.
func TestContract_4_2_TextBelowTheBase(t *testing.T) {
	const low, base = 0xffffffffc0500000, 0xffffffffc0500400
	modules := timeline.NewTable(timelinetest.NewImage(t, timelinetest.Text{
		Name: "low", Origin: timeline.OriginModule, BuildID: ext4ID, Base: base, Start: low, End: base + 0x100,
	}, []timelinetest.Symbol{
		{Offset: 0, Name: "low_cold"},
		{Offset: base - low, Name: "low_text"},
	}...))
	s := timeline.NewSnapshot(testSnapshot(t).Tables()[0], modules)
	for _, scope := range []string{"scope", ebpfScope} {
		m := rewritetest.NewMessage().Profile(nil, scope).Sample(Frame{Address: low + 8}, Frame{Address: base + 8})
		got, _ := runWith(t, rewrite.Options{}, m.Profiles, s)
		assert.Equal(t, withName(Frame{Address: low + 8, Type: "kernel", Mapping: &Mapping{File: "low"}}, "low_cold"), got[0].Stack[0])
		assert.Equal(t, &Mapping{File: "low", BuildID: ext4ID, FileID: buildid.FileID(ext4ID)}, got[0].Stack[1].Mapping)

		m = rewritetest.NewMessage().Profile(nil, scope).Sample(Frame{Address: low + 8})
		got, _ = runWith(t, rewrite.Options{Addresses: rewrite.KeepAddresses}, m.Profiles, s)
		assert.Equal(t, &Mapping{
			File: "low", Start: low, Limit: base + 0x100, BuildID: ext4ID, FileID: buildid.LoadedFileID(ext4ID, base),
		}, got[0].Stack[0].Mapping)
	}
}

// TestContract_4_1_NoRelativeForm: a caller whose ip is the first byte of .text returns to the call
// before it, in text below .text. Its relative address says so for every load of the build; an
// absolute address would be that of one load, and another module may have been there at the time of
// the sample.
func TestContract_4_1_NoRelativeForm(t *testing.T) {
	modules := timeline.NewBuilder(remember)
	load := func(name, id string, start uint64, from int64) {
		modules.Load(timelinetest.NewImage(t, timelinetest.Text{
			Name: name, Origin: timeline.OriginModule, BuildID: id, Base: start + 0x80, Start: start, End: start + 0x100,
			Lifetime: timeline.Since(from),
		}, []timelinetest.Symbol{
			{Offset: 0, Name: name + "_below"},
			{Offset: 0x80, Name: name + "_text"},
		}...))
	}
	load("again", "aa01", slot, nowBoot-9_000*ms)
	modules.Unload(modules.At(slot), nowBoot-6_000*ms)
	load("other", "bb02", slot+0x1000, nowBoot-8_000*ms)
	modules.Unload(modules.At(slot+0x1000), nowBoot-6_000*ms)
	load("again", "aa01", slot+0x1000, nowBoot-5_000*ms)
	known := knownAt(t, modules)
	for _, name := range []string{"", "again_below"} {
		f := Frame{Type: "kernel", Mapping: &Mapping{File: "again", BuildID: "aa01", FileID: buildid.FileID("aa01"), Limit: 1 << 20}}
		if name != "" {
			f = withName(f, name)
		}
		m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: 1, Type: "native"}, f)
		timed(m, nowBoot-7_000*ms)
		opts := withHistory
		opts.All = true
		got, counts := rewriteTimed(t, opts, m, known)
		assert.Equal(t, f, got[0].Stack[1])
		if name == "" {
			assert.Equal(t, one(rewrite.OutcomeUnresolved, timeline.OriginKernel), counts)
		}
		got, _ = rewriteTimed(t, opts, m, known)
		assert.Equal(t, f, got[0].Stack[1], "a second pass")
	}
}

// TestContract_2_UnknownBase: if the base of a module is unknown, offsets into it say nothing, and its
// addresses have no relative form.
func TestContract_2_UnknownBase(t *testing.T) {
	const start = 0xffffffffc0500000
	s := timeline.NewSnapshot(testSnapshot(t).Tables()[0], timeline.NewTable(timelinetest.NewImage(t, timelinetest.Text{
		Name: "nowhere", Origin: timeline.OriginModule, Start: start, End: start + 0x200,
	}, timelinetest.Symbol{Offset: 0x100, Name: "f"})))
	came := Frame{Address: 0x108, Type: "kernel", Mapping: &Mapping{File: "nowhere"}}
	for _, scope := range []string{"scope", ebpfScope} {
		m := rewritetest.NewMessage().Profile(nil, scope).Sample(Frame{Address: start + 0x108}, came, Frame{Address: start + 8})
		got, counts := runWith(t, rewrite.Options{Label: true}, m.Profiles, s)
		bare := Frame{Address: start + 0x108, Type: "kernel", Mapping: &Mapping{File: "nowhere"}}
		assert.Equal(t, withName(bare, "f"), got[0].Stack[0])
		assert.Equal(t, came, got[0].Stack[1])
		bare.Address = start + 8
		assert.Equal(t, bare, got[0].Stack[2], "a label would need an offset")
		assert.Equal(t, 1, counts[rewrite.OutcomeResolved][timeline.OriginModule])
	}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: start + 0x108})
	got, _ := runWith(t, rewrite.Options{Addresses: rewrite.KeepAddresses}, m.Profiles, s)
	assert.Equal(t, &Mapping{File: "nowhere", Start: start, Limit: start + 0x200}, got[0].Stack[0].Mapping)
}

// TestContract_4_2_CompleteMappingsAreKept: complete mappings keep all their other attributes; incomplete
// ones are replaced.
func TestContract_4_2_CompleteMappingsAreKept(t *testing.T) {
	loaded := &Mapping{
		File: "vmlinux", Start: text - 0x1000, Limit: text + 2*textSize, BuildID: kernelID,
		FileID: buildid.LoadedFileID(kernelID, text), Attributes: map[string]any{"x": "y"},
	}
	with := func(change func(*Mapping)) *Mapping {
		m := *loaded
		change(&m)
		return &m
	}
	written := &Mapping{File: "vmlinux", Start: text, Limit: text + textSize, BuildID: kernelID, FileID: buildid.LoadedFileID(kernelID, text)}
	for _, tt := range []struct{ has, want *Mapping }{
		{loaded, loaded},
		{with(func(m *Mapping) { m.Start = text + 0x40 }), written}, // does not cover it all
		{with(func(m *Mapping) { m.FileID = "" }), written},
		{with(func(m *Mapping) { m.FileID = buildid.FileID(kernelID) }), written}, // stands for other addresses
		{with(func(m *Mapping) { m.File = "[kernel.kallsyms]" }), written},
	} {
		got, _ := leaf(t, rewrite.Options{Addresses: rewrite.KeepAddresses}, Frame{Address: text + offB + 1, Type: "kernel", Mapping: tt.has})
		assert.Equal(t, tt.want, got.Mapping)
	}
}

// TestContract_4_3_FileIDsOfFunctions: neither tags nor, for absolute addresses, symbols are unique.
func TestContract_4_3_FileIDsOfFunctions(t *testing.T) {
	h := timeline.NewBuilder(remember)
	names := []string{"bpf_prog_" + progTag + "_f", "bpf_prog_" + progTag + "_g", "bpf_prog_" + progTag + "_f"}
	m := rewritetest.NewMessage().Profile(nil, "scope")
	for i, name := range names {
		h.Load(timeline.NewFunction(timeline.OriginBPF, name, slot+uint64(i)*0x100, 0x100, 0))
		m.Sample(Frame{Address: slot + uint64(i)*0x100 + 8, Type: "kernel"})
	}
	h.SetCertain(timeline.Forever)
	s := timeline.NewSnapshot(h.Table())
	for keep, different := range map[bool]int{false: 2, true: 3} {
		got, _ := runWith(t, rewrite.Options{Addresses: addressesOf(keep)}, copied(m.Profiles), s)
		ids := make(map[string]bool)
		for i, sample := range got {
			f := sample.Stack[0]
			assert.Equal(t, names[i], nameIn(f))
			assert.Empty(t, f.Attributes, "its program is not known")
			ids[f.Mapping.FileID] = true
		}
		assert.Len(t, ids, different)
	}
}

// TestContract_4_4_HasLines: a mapping's attributes about files and lines are true of the frames that have
// it.
func TestContract_4_4_HasLines(t *testing.T) {
	user := Frame{Address: 1, Type: "native", Mapping: &Mapping{File: "app", Attributes: map[string]any{
		keyHasFunctions: true, keyHasFiles: false, keyHasLines: false,
	}}}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(
		Frame{Address: progMain + 1}, Frame{Address: progTwin + 9}, Frame{Address: text + offB + 1}, user)
	got, _ := runWith(t, rewrite.Options{}, m.Profiles, bpfSnapshot(t))
	has := func(lines bool) map[string]any {
		return map[string]any{keyHasFunctions: true, keyHasFiles: lines, keyHasLines: lines}
	}
	assert.Equal(t, has(true), got[0].Stack[0].Mapping.Attributes)
	assert.Equal(t, has(false), got[0].Stack[1].Mapping.Attributes, "a program without line information")
	assert.Equal(t, has(false), got[0].Stack[2].Mapping.Attributes)
	assert.Equal(t, user, got[0].Stack[3])

	// An original mapping that claims to have files loses that claim if a frame has none.
	says := vmlinux()
	says.Attributes = map[string]any{keyHasFiles: true}
	f, _ := leaf(t, rewrite.Options{}, Frame{Address: offB + 1, Type: "kernel", Mapping: says})
	assert.Equal(t, map[string]any{keyHasFiles: false}, f.Mapping.Attributes)
}

// TestKnownIsAskedOnce: the sources are read once for a message with kernel frames, and not at all for
// others.
func TestKnownIsAskedOnce(t *testing.T) {
	asked := 0
	known := rewrite.Sources{Snapshot: func() *timeline.Snapshot {
		asked++
		return testSnapshot(t)
	}}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: 1, Type: "native"})
	rewritten(t, rewrite.New(rewrite.Options{}), m.Profiles, known)
	assert.Zero(t, asked)
	m.Sample(Frame{Address: text + offB}, Frame{Address: 1, Mapping: &Mapping{File: "[ext4]"}}, Frame{Address: 8, Mapping: &Mapping{File: "[odd_module]"}})
	rewritten(t, rewrite.New(rewrite.Options{}), m.Profiles, known)
	assert.Equal(t, 1, asked)
}
