// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/flame"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// kinds returns a message with a stack of each kind of code, as kernelsym writes it.
func kinds() pprofile.Profiles {
	named := func(file string, names ...string) rewritetest.Frame {
		f := rewritetest.Frame{Address: 0x1234, Type: "kernel", Mapping: &rewritetest.Mapping{File: file}}
		for _, name := range names {
			f.Lines = append(f.Lines, rewritetest.Line{Name: name, System: name})
		}
		return f
	}
	return rewritetest.NewMessage().Profile(nil, "").Sample(
		named("[bpf]", "bpf_prog_2e5a4300140595ee_shake"),
		named("vmlinux"),
		named("nf_tables", "nft_do_chain"),
		named("vmlinux", "__do_softirq", "invoke_softirq", "do_softirq.part.0"),
		rewritetest.Frame{Address: 0xffffffffc0001000, Mapping: &rewritetest.Mapping{File: "[kernel.kallsyms]"}},
		rewritetest.Frame{Address: 0x2000, Type: "native", Mapping: &rewritetest.Mapping{File: "/usr/lib/libc.so.6", Start: 0x1000, Limit: 0x3000, Offset: 0x500}},
	).Profiles
}

// written returns a message with the names that it came with.
func written(t *testing.T, pd pprofile.Profiles) *rewrite.Named {
	t.Helper()
	n, err := rewrite.AsWritten(pd)
	require.NoError(t, err)
	return n
}

func TestViewStacks(t *testing.T) {
	m := profilefile.NewMerger("")
	m.Add(written(t, kinds()))
	s := newViewStacks(m, nil)
	var folded strings.Builder
	require.NoError(t, s.graph.Folded(&folded))
	assert.Equal(t, "[no name] libc.so.6+0x1500;[no name] [kernel.kallsyms];do_softirq.part.0;invoke_softirq (inlined);"+
		"__do_softirq (inlined);nft_do_chain;[no name] vmlinux+0x1234;bpf_prog_2e5a4300140595ee_shake 1\n", folded.String())
	assert.Equal(t, "1 sample, 100.0 % in the kernel; 60.0 % of the kernel frames have a name", s.heading())
}

// TestPlaceholdersHaveNoName verifies that placeholders are drawn like other unnamed kernel code.
// Names in user space are not changed.
func TestPlaceholdersHaveNoName(t *testing.T) {
	named := func(frameType, name string) rewritetest.Frame {
		return rewritetest.Frame{
			Address: 0x1234, Type: frameType, Mapping: &rewritetest.Mapping{File: "vmlinux"},
			Lines: []rewritetest.Line{{Name: name, System: name}},
		}
	}
	m := profilefile.NewMerger("")
	m.Add(written(t, rewritetest.NewMessage().Profile(nil, "").Sample(
		named("kernel", "vmlinux+0x1234"), named("kernel", "[unknown]"), named("kernel", "vfs_read"), named("native", "[unknown]")).Profiles))
	s := newViewStacks(m, nil)
	var folded strings.Builder
	require.NoError(t, s.graph.Folded(&folded))
	assert.Equal(t, "[unknown];vfs_read;[no name] vmlinux+0x1234;[no name] vmlinux+0x1234 1\n", folded.String())
	assert.Equal(t, "1 sample, 100.0 % in the kernel; 33.3 % of the kernel frames have a name", s.heading())
}

// TestGuestsAreNotTheKernels verifies that time in a guest of KVM is not the kernel's, as in top.
func TestGuestsAreNotTheKernels(t *testing.T) {
	named := func(name string) rewritetest.Frame {
		return rewritetest.Frame{Type: "kernel", Lines: []rewritetest.Line{{Name: name, System: name}}}
	}
	pd := rewritetest.NewMessage().Profile(nil, "").Sample(named("[guest]")).Sample(named("[guest]")).Sample(named("vfs_read")).Sample(named("")).Profiles
	m, counts := profilefile.NewMerger(""), hot.NewCounts()
	m.Add(written(t, pd))
	counts.Add(written(t, pd))
	s := newViewStacks(m, nil)
	assert.Equal(t, "4 samples, 50.0 % in the kernel; 50.0 % of the kernel frames have a name", s.heading())
	assert.Equal(t, []int64{counts.All, counts.Kernel, counts.Frames, counts.Named}, []int64{s.all, s.kernel, s.frames, s.named})
}

func TestFrames(t *testing.T) {
	for _, tt := range []struct {
		file     string
		isKernel bool
		want     flame.Kind
	}{
		{"vmlinux", true, flame.Core},
		{"/boot/vmlinux-6.12", true, flame.Core},
		{"/usr/lib/debug/boot/vmlinux", true, flame.Core},
		{"[kernel.kallsyms]", true, flame.Core},
		{"[__builtin__kprobes]", true, flame.Core},
		{"", true, flame.Core},
		{"[bpf]", true, flame.BPF},
		{"bpf_prog_0123456789abcdef_f", true, flame.BPF},
		{"nf_tables", true, flame.Module},
		{"[nf_tables]", true, flame.Module},
		{"app", false, flame.User},
	} {
		named := rewrite.Code{File: tt.file, Lines: []rewrite.CodeLine{{Function: "f"}}}
		assert.Equal(t, []flame.Frame{{Name: "f", Owner: tt.file, Kind: tt.want}}, framesOf(new(profile.Location), &named, tt.isKernel), tt.file)
	}
	program := rewrite.Code{Lines: []rewrite.CodeLine{{Function: "bpf_prog_2e5a4300140595ee_shake"}}} // as the OTel eBPF profiler has it (contract 2.5)
	assert.Equal(t, []flame.Frame{{Name: "bpf_prog_2e5a4300140595ee_shake", Kind: flame.BPF}}, framesOf(new(profile.Location), &program, true))
	static := rewrite.Code{File: "vmlinux", Lines: []rewrite.CodeLine{{Function: "f", File: "fs/open.c"}}}
	assert.Equal(t, []flame.Frame{{Name: "f", Owner: "vmlinux", File: "fs/open.c", Kind: flame.Core}}, framesOf(new(profile.Location), &static, true))

	at := func(file string, address uint64) *profile.Location {
		loc := &profile.Location{Address: address}
		if file != "" {
			loc.Mapping = &profile.Mapping{File: file}
		}
		return loc
	}
	assert.Equal(t, []flame.Frame{{Name: "[no name] nf_tables+0x1c", Owner: "nf_tables", Kind: flame.Unnamed}},
		framesOf(at("nf_tables", 0x1c), &rewrite.Code{File: "nf_tables"}, true))
	assert.Equal(t, []flame.Frame{{Name: "[no name] app+0x1c", Owner: "app", Kind: flame.User}}, framesOf(at("app", 0x1c), &rewrite.Code{File: "app"}, false))
	assert.Equal(t, "[no name] [kernel.kallsyms]", unnamed(at("[kernel.kallsyms]", 0xffffffffc0001000)), "no offset is known")
	assert.Equal(t, "[no name]", unnamed(at("", 0xffffffffc0001000)))
}

func TestValues(t *testing.T) {
	for want, s := range map[string]viewStacks{
		"1500 samples": {sampleType: profile.ValueType{Type: "samples", Unit: "count"}},
		"1.5µs":        {sampleType: profile.ValueType{Type: "cpu", Unit: "nanoseconds"}},
		"1500 bytes":   {sampleType: profile.ValueType{Type: "space", Unit: "bytes"}},
		"1500":         {},
	} {
		assert.Equal(t, want, s.value(1500))
	}
}
