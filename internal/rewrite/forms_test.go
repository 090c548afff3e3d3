// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

func TestContract_2_Forms(t *testing.T) {
	ko := func(file, id string) *Mapping { return &Mapping{File: file, BuildID: id} }
	for _, tt := range []struct {
		name string
		in   Frame
		want string // module, offset and function
	}{
		{"absolute", Frame{Address: text + offB + 1}, "vmlinux+0x51 b"},
		{"absolute in a module", Frame{Address: ext4 + 0x101}, "ext4+0x101 ext4_write"},
		{"absolute, mapping of the kernel", Frame{Address: ext4 + 0x101, Mapping: &Mapping{File: "[kernel.kallsyms]"}}, "ext4+0x101 ext4_write"},
		{"absolute, mapping of the kernel with its build id", Frame{Address: ext4 + 0x101, Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: kernelID}}, ""},
		{"relative by build id", Frame{Address: offB + 1, Mapping: ko("whatever", kernelID)}, "vmlinux+0x51 b"},
		{"relative by build id in capitals", Frame{Address: offB + 1, Mapping: ko("whatever", "4A5A9B0AFFB66C437ABCD455D2738AF879985FA9")}, "vmlinux+0x51 b"},
		{"relative by name", Frame{Address: offB + 1, Mapping: ko("vmlinux", "")}, "vmlinux+0x51 b"},
		{"relative by path", Frame{Address: offB + 1, Mapping: ko("/boot/vmlinux-6.1", "")}, "vmlinux+0x51 b"},
		{"relative in perf's mapping", Frame{Address: offB + 1, Mapping: ko("[kernel.kallsyms]_text", "")}, ""},
		{"relative in perf's mapping, by build id", Frame{Address: offB + 1, Mapping: ko("[kernel.kallsyms]", kernelID)}, "vmlinux+0x51 b"},
		{"a module's, by build id", Frame{Address: 0x101, Mapping: ko("[kernel.kallsyms]", ext4ID)}, "ext4+0x101 ext4_write"},
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
			got, _ := leaf(t, rewrite.Options{}, tt.in)
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
		got, counts := leaf(t, rewrite.Options{Label: true}, f)
		assert.Equal(t, f, got)
		assert.Equal(t, one(rewrite.OutcomeForeign, timeline.OriginKernel), counts)
	}
}

// TestContract_2_1_BuildThatIsNotKnown: without sysfs, the kernel's own build id is unknown. A mapping with a
// build id is then foreign; frames without one get names.
func TestContract_2_1_BuildThatIsNotKnown(t *testing.T) {
	core := timelinetest.NewImage(t, timelinetest.Text{
		Name: timeline.KernelName, Base: text, Start: text, End: text + textSize,
	}, timelinetest.Symbol{Name: "a"})
	for _, tt := range []struct {
		in   Frame
		want Frame
	}{
		{
			Frame{Address: text + 1, Mapping: &Mapping{File: "[kernel.kallsyms]", Start: text, Limit: text + 8}},
			withName(Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux"}}, "a"),
		},
		{
			Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "/boot/vmlinux-6.1"}},
			withName(Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux"}}, "a"),
		},
		{Frame{Address: text + 1, Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: "0123"}}, Frame{}},
		{Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: "0123"}}, Frame{}},
		{Frame{Address: 1, Mapping: &Mapping{File: "ext4.ko", BuildID: "4567"}}, Frame{}},
	} {
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(tt.in)
		samples, counts := runWith(t, rewrite.Options{}, m.Profiles, timeline.NewSnapshot(timeline.NewTable(core)))
		want, outcome := tt.want, rewrite.OutcomeResolved
		if want.Address == 0 {
			want, outcome = tt.in, rewrite.OutcomeForeign
		}
		assert.Equal(t, want, samples[0].Stack[0])
		assert.Equal(t, one(outcome, timeline.OriginKernel), counts)
	}
}

// TestModuleWithoutBuildID: a build id never identifies a module that has none.
func TestModuleWithoutBuildID(t *testing.T) {
	mapping := &Mapping{File: "odd_module", BuildID: "1234567890123456789012345678901234567890"}
	for _, addr := range []uint64{8, odd + 9} {
		f := Frame{Address: addr, Mapping: mapping, Type: "kernel"}
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f)
		_, counts := rewritten(t, rewrite.New(rewrite.Options{}), m.Profiles, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
		assert.Equal(t, f, rewritetest.FrameAt(m.Profiles.Dictionary(), 1))
		assert.Equal(t, 1, counts[rewrite.OutcomeForeign][timeline.OriginKernel])
	}
}

// TestLongBuildIDIsForeign: it is not even compared.
func TestLongBuildIDIsForeign(t *testing.T) {
	f := Frame{Address: offA + 1, Mapping: &Mapping{File: "vmlinux", BuildID: strings.Repeat("A", 129)}, Type: "kernel"}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f)
	_, counts := rewritten(t, rewrite.New(rewrite.Options{}), m.Profiles, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
	assert.Equal(t, f, rewritetest.FrameAt(m.Profiles.Dictionary(), 1))
	assert.Equal(t, 1, counts[rewrite.OutcomeForeign][timeline.OriginKernel])
}
