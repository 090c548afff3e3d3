// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// TestContract_2_1_IDs: an unknown ID stops the rewrite, and so does an ID of another image than the one at
// the address. A build id and a file ID must agree.
func TestContract_2_1_IDs(t *testing.T) {
	const otherID = "00112233445566778899aabbccddeeff00112233"
	const symbol = "bpf_prog_" + progTag + "_xdp_main"
	prog, twin, helper := mainContent(42), mainContent(43), contentOf("bpf_prog_"+subTag+"_helper", 0x40, subLines())
	for _, tt := range []struct {
		name    string
		addr    uint64
		build   string
		file    string
		foreign bool
	}{
		{"no ids", text + offB + 1, "", "", false},
		{"ours", text + offB + 1, kernelID, buildid.FileID(kernelID), false},
		{"ours, file ID alone", text + offB + 1, "", buildid.FileID(kernelID), false},
		{"ours, in capitals", text + offB + 1, strings.ToUpper(kernelID), "", false},
		{"ours, of this boot", text + offB + 1, "", buildid.LoadedFileID(kernelID, text), false},
		{"ours, of another boot", text + offB + 1, "", buildid.LoadedFileID(kernelID, text+0x200000), true},
		{"another build id", text + offB + 1, otherID, "", true},
		{"another file ID", text + offB + 1, "", buildid.FileID(otherID), true},
		{"our build id and another file ID", text + offB + 1, kernelID, buildid.FileID(otherID), true},
		{"our build id and a module's file ID", text + offB + 1, kernelID, buildid.FileID(ext4ID), true},
		{"another build id and our file ID", text + offB + 1, otherID, buildid.FileID(kernelID), true},
		{"a module's build id", text + offB + 1, ext4ID, "", true},
		{"a module's file ID", text + offB + 1, "", buildid.FileID(ext4ID), true},
		{"a function's file ID", text + offB + 1, "", buildid.ContentFileID(prog), true},
		{"a module, its own", ext4 + 1, ext4ID, buildid.FileID(ext4ID), false},
		{"a module, the kernel's", ext4 + 1, kernelID, buildid.FileID(kernelID), true},
		{"a module without build id, the kernel's", odd + 1, kernelID, "", true},
		{"a function, its own", progMain + 1, "", buildid.ContentFileID(prog), false},
		{"a function, its own of this boot", progMain + 1, "", buildid.LoadedFileID(prog, progMain), false},
		{"a function, its own before its lines were known", progMain + 1, "", buildid.ContentFileID(twin), false},
		{"a function, that of this boot before its lines were known", progMain + 1, "", buildid.LoadedFileID(twin, progMain), false},
		{"a function, that of its namesake elsewhere", progMain + 1, "", buildid.LoadedFileID(twin, progTwin), true},
		{"a function, its symbol's", progMain + 1, "", buildid.ContentFileID(symbol), true},
		{"a function, its symbol's of another length", progMain + 1, "", buildid.ContentFileID(contentOf(symbol, 0x81, mainLines())), true},
		{"a function, its symbol's with other lines", progMain + 1, "", buildid.ContentFileID(contentOf(symbol, 0x80, subLines())), true},
		{"a function, another's", progMain + 1, "", buildid.ContentFileID(helper), true},
		{"a function, a build id", progMain + 1, kernelID, "", true},
		{"nothing, another's", 0xffffffffa0000000, "", buildid.FileID(otherID), true},
		{"nothing, ours", 0xffffffffa0000000, kernelID, "", false},
		{"nothing, a function's", 0xffffffffa0000000, "", buildid.ContentFileID(prog), false},
		{"nothing, a function's of this boot", 0xffffffffa0000000, "", buildid.LoadedFileID(twin, progTwin), false},
		{"nothing, a function's of another boot", 0xffffffffa0000000, "", buildid.LoadedFileID(twin, progTwin+8), true},
	} {
		for _, file := range []string{"[kernel.kallsyms]", "vmlinux", "[bpf]"} {
			for _, opts := range []rewrite.Options{{}, {Addresses: rewrite.KeepAddresses}, {All: true, Label: true}} {
				f := Frame{Address: tt.addr, Mapping: &Mapping{File: file, Limit: 1<<64 - 1, BuildID: tt.build, FileID: tt.file}}
				m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f)
				got, counts := runWith(t, opts, m.Profiles, bpfSnapshot(t))
				assert.Equal(t, tt.foreign, counts == one(rewrite.OutcomeForeign, timeline.OriginKernel), "%s, %s", tt.name, file)
				if tt.foreign {
					assert.Equal(t, f, got[0].Stack[0], tt.name)
				} else {
					assert.Equal(t, "kernel", got[0].Stack[0].Type, tt.name)
				}
			}
		}
	}
}

// TestContract_2_1_RelativeIDs: the same for relative addresses.
func TestContract_2_1_RelativeIDs(t *testing.T) {
	const otherID = "00112233445566778899aabbccddeeff00112233"
	for _, tt := range []struct {
		name, file, build, id string
		want                  string // empty: foreign
	}{
		{"build id", "x", ext4ID, "", "ext4_write"},
		{"file ID", "x", "", buildid.FileID(ext4ID), "ext4_write"},
		{"both", "x", ext4ID, buildid.FileID(ext4ID), "ext4_write"},
		{"file ID of this boot", "x", "", buildid.LoadedFileID(ext4ID, ext4), "ext4_write"},
		{"name", "ext4.ko", "", "", "ext4_write"},
		{"another build id, whatever the name", "ext4.ko", otherID, "", ""},
		{"another file ID, whatever the name", "ext4.ko", "", buildid.FileID(otherID), ""},
		{"another file ID, of the core", "vmlinux", "", buildid.FileID(otherID), ""},
		{"ids that do not agree", "ext4.ko", ext4ID, buildid.FileID(kernelID), ""},
		{"one unknown id", "ext4.ko", ext4ID, buildid.FileID(otherID), ""},
	} {
		f := Frame{Address: 0x101, Type: "kernel", Mapping: &Mapping{File: tt.file, BuildID: tt.build, FileID: tt.id}}
		got, counts := leaf(t, rewrite.Options{}, f)
		assert.Equal(t, tt.want, nameIn(got), tt.name)
		if tt.want == "" {
			assert.Equal(t, f, got, tt.name)
			assert.Equal(t, one(rewrite.OutcomeForeign, timeline.OriginKernel), counts, tt.name)
		}
	}
}

// TestContract_2_1_AnEarlierLoad: the file ID of the address where it was loaded identifies it.
func TestContract_2_1_AnEarlierLoad(t *testing.T) {
	modules := timeline.NewBuilder(remember)
	for i, start := range []uint64{slot, slot + 0x10000} {
		modules.Load(timelinetest.NewImage(t, timelinetest.Text{
			Name: "twice", Origin: timeline.OriginModule, BuildID: ext4ID, Base: start,
			Start: start, End: start + 0x100, Lifetime: timeline.Since(nowBoot - int64(9-5*i)*1000*ms),
		}, timelinetest.Symbol{Name: "twice_first"}))
		if i == 0 {
			modules.Unload(modules.At(start), nowBoot-7_000*ms)
		}
	}
	mapping := &Mapping{
		File: "twice", Start: slot, Limit: slot + 0x100, BuildID: ext4ID, FileID: buildid.LoadedFileID(ext4ID, slot),
	}
	m := rewritetest.NewMessage().Profile(nil, "")
	m.Sample(Frame{Address: slot + 8, Type: "kernel", Mapping: mapping}) // a moment after it went
	timed(m, nowBoot-6_000*ms)
	got, counts := rewriteTimed(t, withHistory, m, knownAt(t, modules))
	assert.Equal(t, one(rewrite.OutcomeUnresolved, timeline.OriginKernel), counts)
	assert.Nil(t, got[0].Stack[0].Mapping, "it does not cover the address any more")
}
