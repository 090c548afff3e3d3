// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

func TestContract_3_4_Names(t *testing.T) {
	got, _ := leaf(t, rewrite.Options{}, Frame{Address: text + offRust + 1, Type: "kernel"})
	assert.Equal(t, []Line{{Name: "core::fmt::write", System: rustName}}, got.Lines)
	got, _ = leaf(t, rewrite.Options{}, Frame{Address: text + offE, Type: "kernel"})
	assert.Equal(t, []Line{{Name: "e", System: "e"}}, got.Lines)
}

func TestContract_4_1_Addresses(t *testing.T) {
	loaded := func(m *Mapping, start, size uint64) *Mapping {
		m.Start, m.Limit, m.FileID = start, start+size, buildid.LoadedFileID(m.BuildID, start)
		return m
	}
	for _, tt := range []struct {
		name           string
		in             Frame
		relative, keep Frame
	}{
		{
			"absolute in the core",
			Frame{Address: text + offB + 1},
			Frame{Address: offB + 1, Mapping: vmlinux()},
			Frame{Address: text + offB + 1, Mapping: loaded(vmlinux(), text, textSize)},
		},
		{
			"absolute in a module",
			Frame{Address: ext4 + 1},
			Frame{Address: 1, Mapping: ext4Mapping()},
			Frame{Address: ext4 + 1, Mapping: loaded(ext4Mapping(), ext4, ext4Size)},
		},
		{
			"relative",
			Frame{Address: 1, Mapping: &Mapping{File: "ext4.ko"}},
			Frame{Address: 1, Mapping: ext4Mapping()},
			Frame{Address: 1, Mapping: ext4Mapping()},
		},
		{
			"relative, by build id",
			Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "a.debug", BuildID: ext4ID}},
			Frame{Address: 1, Mapping: ext4Mapping()},
			Frame{Address: 1, Mapping: ext4Mapping()},
		},
		{
			"relative, in a module without build id",
			Frame{Address: 1, Mapping: &Mapping{File: "odd-module.ko"}},
			Frame{Address: 1, Mapping: &Mapping{File: "odd_module"}},
			Frame{Address: 1, Mapping: &Mapping{File: "odd_module"}},
		},
		{
			"absolute, as perf maps a module",
			Frame{Address: ext4 + 0x101, Mapping: &Mapping{File: "[ext4]", Start: ext4, Limit: ext4 + 0x8000}},
			Frame{Address: 0x101, Mapping: ext4Mapping()},
			Frame{Address: ext4 + 0x101, Mapping: loaded(ext4Mapping(), ext4, ext4Size)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := leaf(t, rewrite.Options{}, tt.in)
			tt.relative.Type, tt.keep.Type = "kernel", "kernel"
			tt.relative.Lines, tt.keep.Lines = got.Lines, got.Lines
			assert.NotEmpty(t, got.Lines)
			assert.Equal(t, tt.relative, got)
			got, _ = leaf(t, rewrite.Options{Addresses: rewrite.KeepAddresses}, tt.in)
			assert.Equal(t, tt.keep, got)
		})
	}
}

// TestAddressBelowTheBase: an offset cannot be negative, so the address stays.
func TestAddressBelowTheBase(t *testing.T) {
	got, _ := leaf(t, rewrite.Options{}, Frame{Address: oddLow + 1, Type: "kernel"})
	assert.Equal(t, withName(Frame{
		Address: oddLow + 1, Type: "kernel",
		Mapping: &Mapping{File: "odd_module"},
	}, "odd_cold"), got)
}

func TestContract_4_1_UnresolvedInAModule(t *testing.T) {
	for _, tt := range []struct {
		in    Frame
		want  Frame
		label string
		from  timeline.Origin
	}{
		{Frame{Address: text + 0x110}, Frame{Address: 0x110, Mapping: vmlinux()}, "vmlinux+0x110", timeline.OriginKernel},
		{Frame{Address: 0x110, Mapping: &Mapping{File: "vmlinux"}}, Frame{Address: 0x110, Mapping: vmlinux()}, "vmlinux+0x110", timeline.OriginKernel},
		{
			Frame{Address: oddLow + 0x180},
			Frame{Address: oddLow + 0x180, Mapping: &Mapping{File: "odd_module"}},
			"odd_module-0x280", timeline.OriginModule,
		},
	} {
		tt.want.Type = "kernel"
		got, counts := leaf(t, rewrite.Options{}, tt.in)
		assert.Equal(t, tt.want, got)
		assert.Equal(t, one(rewrite.OutcomeUnresolved, tt.from), counts)

		got, counts = leaf(t, rewrite.Options{Label: true}, tt.in)
		assert.Equal(t, withName(tt.want, tt.label), got)
		assert.Equal(t, one(rewrite.OutcomeUnresolved, tt.from), counts)

		// A placeholder stays, unless there is a label.
		tt.in.Lines = []Line{{Name: "UNKNOWN"}}
		got, _ = leaf(t, rewrite.Options{}, tt.in)
		assert.Equal(t, tt.in.Lines, got.Lines)
		got, _ = leaf(t, rewrite.Options{Label: true}, tt.in)
		assert.Equal(t, withName(tt.want, tt.label), got)
	}
}

func TestContract_4_1_UnknownOwner(t *testing.T) {
	for _, typ := range []string{"", "kernel"} {
		for _, mapping := range []*Mapping{nil, {File: "[kernel.kallsyms]", Start: 0xffffffffa0000000, Limit: 1<<64 - 1}, {File: "[bpf]"}} {
			for _, opts := range []rewrite.Options{{}, {Label: true}, {Addresses: rewrite.KeepAddresses}, {All: true}} {
				got, counts := leaf(t, opts, Frame{Address: 0xffffffffa0000000, Type: typ, Mapping: mapping})
				assert.Equal(t, Frame{Address: 0xffffffffa0000000, Type: "kernel"}, got, "what it came with does not cover it")
				assert.Equal(t, one(rewrite.OutcomeUnresolved, timeline.OriginKernel), counts)
			}
		}
	}
}

func TestContract_4_2_Mappings(t *testing.T) {
	at := Frame{Address: text + offB + 1, Type: "kernel"}
	for _, tt := range []struct {
		name string
		has  *Mapping
		want *Mapping
	}{
		{"none", nil, vmlinux()},
		{"the right one", vmlinux(), vmlinux()},
		{
			"the right one, with other attributes",
			&Mapping{File: "vmlinux", BuildID: kernelID, FileID: buildid.FileID(kernelID), Attributes: map[string]any{"x": "y"}},
			&Mapping{File: "vmlinux", BuildID: kernelID, FileID: buildid.FileID(kernelID), Attributes: map[string]any{"x": "y"}},
		},
		{"no file ID", &Mapping{File: "vmlinux", BuildID: kernelID}, vmlinux()},
		{"another name", &Mapping{File: "[kernel.kallsyms]", BuildID: kernelID}, vmlinux()},
		{"no build id", &Mapping{File: "vmlinux"}, vmlinux()},
		{"absolute start", &Mapping{File: "vmlinux", BuildID: kernelID, Start: text, Limit: text + textSize}, vmlinux()},
		{"file ID only", &Mapping{File: "vmlinux", FileID: buildid.FileID(kernelID)}, vmlinux()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at.Mapping = tt.has
			got, _ := leaf(t, rewrite.Options{}, at)
			assert.Equal(t, withName(Frame{Address: offB + 1, Type: "kernel", Mapping: tt.want}, "b"), got)
		})
	}
	got, _ := leaf(t, rewrite.Options{}, Frame{Address: odd + 1})
	assert.Equal(t, &Mapping{File: "odd_module"}, got.Mapping, "a module without build id")
}

// TestMappingIsFoundAgain: each module has one mapping, and an existing one is reused.
func TestMappingIsFoundAgain(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(
		Frame{Address: ext4 + 1},
		Frame{Address: ext4 + 0x100},
		Frame{Address: text + offB + 1},
		Frame{Address: text + offC + 1, Mapping: &Mapping{File: "[kernel.kallsyms]"}},
		Frame{Address: 0x1, Type: "native", Mapping: vmlinux()},
	)
	before := m.Profiles.Dictionary().MappingTable().Len()
	run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, before+1, m.Profiles.Dictionary().MappingTable().Len(), "ext4 was added")
}

// TestMappingWithoutFileIDIsNotKept: no frame keeps an incomplete mapping.
func TestMappingWithoutFileIDIsNotKept(t *testing.T) {
	bare := &Mapping{File: "vmlinux", BuildID: kernelID}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(
		Frame{Address: offB + 1, Type: "kernel", Mapping: bare},
		Frame{Address: text + offC + 1},
	)
	run(t, rewrite.Options{}, m.Profiles)
	stack := rewritetest.Samples(m.Profiles)[0].Stack
	assert.Equal(t, vmlinux(), stack[0].Mapping)
	assert.Equal(t, vmlinux(), stack[1].Mapping)
}

func TestContract_4_4_HasFunctions(t *testing.T) {
	has := func(m *Mapping, value any) *Mapping {
		if value != nil {
			m.Attributes = map[string]any{keyHasFunctions: value}
		}
		return m
	}
	user := Frame{Address: 1, Mapping: has(&Mapping{File: "app"}, true)} // the message uses it
	for _, tt := range []struct {
		name      string
		has, want *Mapping
	}{
		{"new mapping", nil, has(vmlinux(), true)},
		{"false becomes true", has(vmlinux(), false), has(vmlinux(), true)},
		{"true stays", has(vmlinux(), true), has(vmlinux(), true)},
		{"none stays none", vmlinux(), vmlinux()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := rewritetest.NewMessage().Profile(nil, "scope").
				Sample(Frame{Address: text + offB + 1, Type: "kernel", Mapping: tt.has}, user)
			samples, _ := run(t, rewrite.Options{}, m.Profiles)
			assert.Equal(t, tt.want, samples[0].Stack[0].Mapping)
			assert.Equal(t, user, samples[0].Stack[1])
		})
	}
}

// TestContract_4_4_HasFunctionsWithoutALine verifies that a mapping has functions if any are known for its code, or if a
// frame in it has a line.
func TestContract_4_4_HasFunctionsWithoutALine(t *testing.T) {
	early := timelinetest.NewImage(t, timelinetest.Text{ // its symbols have not been read
		Name: "early", Origin: timeline.OriginModule, BuildID: "ea51", Base: odd, Start: odd, End: odd + 0x100,
	})
	s := timeline.NewSnapshot(append(testSnapshot(t).Tables()[:1:1], timeline.NewTable(early))...)
	user := Frame{Address: 1, Mapping: &Mapping{File: "app", Attributes: map[string]any{keyHasFunctions: true}}}
	for _, tt := range []struct {
		name string
		addr uint64
		opts rewrite.Options
		want bool
	}{
		{"an address without a symbol", text + 1, rewrite.Options{}, true},
		{"an image without symbols", odd + 1, rewrite.Options{}, false},
		{"a label", odd + 1, rewrite.Options{Label: true}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: tt.addr, Type: "kernel"}, user)
			samples, _ := runWith(t, tt.opts, m.Profiles, s)
			assert.Equal(t, map[string]any{keyHasFunctions: tt.want}, samples[0].Stack[0].Mapping.Attributes)
		})
	}
}

// TestContract_4_2_NoAttributesWithoutAFileID: devfiler refuses a request with a mapping that has attributes
// but no file ID, so such a mapping gets none about functions and lines.
func TestContract_4_2_NoAttributesWithoutAFileID(t *testing.T) {
	says := map[string]any{keyHasFunctions: true, keyHasFiles: false}
	user := Frame{Address: 1, Type: "native", Mapping: &Mapping{File: "app", FileID: "aa", Attributes: says}}
	for _, f := range []Frame{
		{Address: odd + 1, Type: "kernel"},
		{Address: oddLow + 1, Type: "kernel"}, // has no relative form
		{Address: 1, Type: "kernel", Mapping: &Mapping{File: "odd_module", Attributes: says}},
	} {
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f, user)
		samples, _ := run(t, rewrite.Options{}, m.Profiles)
		assert.NotEmpty(t, nameIn(samples[0].Stack[0]))
		assert.Equal(t, &Mapping{File: "odd_module"}, samples[0].Stack[0].Mapping)
		assert.Equal(t, user, samples[0].Stack[1])
	}
}

func TestContract_4_4_IsFolded(t *testing.T) {
	folded := func(offset uint64, value any) Frame {
		f := Frame{Address: text + offset, Type: "kernel"}
		if value != nil {
			f.Attributes = map[string]any{keyFolded: value}
		}
		return f
	}
	for _, tt := range []struct {
		name      string
		offset    uint64
		has, want any
	}{
		{"alias", offE, nil, true},
		{"alias that says no", offE, false, true},
		{"alias that says so", offE, true, true},
		{"plain that says folded", offB, true, false},
		{"plain that says no", offB, false, false},
		{"plain", offB, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := rewritetest.NewMessage().Profile(nil, "scope").Sample(
				folded(tt.offset+1, tt.has),
				Frame{Address: 1, Type: "native", Attributes: map[string]any{keyFolded: false}}, // the message uses it
			)
			samples, _ := run(t, rewrite.Options{}, m.Profiles)
			assert.Equal(t, tt.want, samples[0].Stack[0].Attributes[keyFolded])
		})
	}
	got, _ := leaf(t, rewrite.Options{}, folded(offE, nil))
	assert.Empty(t, got.Attributes, "not where the message does not use it")
}

// TestContract_4_5_NoDuplicates has frames that share new entries with each other, and reuse entries that the
// message has; run checks that no entry appears twice.
func TestContract_4_5_NoDuplicates(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(withName(Frame{Address: 7, Type: "kernel", Mapping: vmlinux()}, "b")).
		Sample(Frame{Address: text + offB + 1}, Frame{Address: text + offB + 2}, Frame{Address: text + offRust + 1}).
		Sample(Frame{Address: text + offRust + 2}, Frame{Address: ext4 + 1})
	d := m.Profiles.Dictionary()
	strings, functions, mappings, attributes := d.StringTable().Len(), d.FunctionTable().Len(), d.MappingTable().Len(), d.AttributeTable().Len()
	run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, strings+4, d.StringTable().Len(), "core::fmt::write, its symbol, ext4, ext4_read")
	assert.Equal(t, functions+2, d.FunctionTable().Len())
	assert.Equal(t, mappings+1, d.MappingTable().Len())
	assert.Equal(t, attributes+2, d.AttributeTable().Len(), "ext4's build id and file ID")
}

// TestTablesThatWereLeftOut: a message may omit tables that it does not use.
func TestTablesThatWereLeftOut(t *testing.T) {
	m := rewritetest.NewMessage()
	d := m.Profiles.Dictionary()
	empty := func() {
		d.StringTable().FromRaw(nil)
		d.AttributeTable().RemoveIf(func(pprofile.KeyValueAndUnit) bool { return true })
		d.MappingTable().RemoveIf(func(pprofile.Mapping) bool { return true })
		d.FunctionTable().RemoveIf(func(pprofile.Function) bool { return true })
	}
	empty()
	d.LocationTable().AppendEmpty().SetAddress(text + offB + 1)
	d.StackTable().AppendEmpty().LocationIndices().Append(1)
	samples := m.Profiles.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty().Samples()
	samples.AppendEmpty().SetStackIndex(1)
	got, _ := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, withName(Frame{Address: offB + 1, Type: "kernel", Mapping: vmlinux()}, "b"), got[0].Stack[0])
}
