// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packimage"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// gatewayKnown returns the sources of a gateway that has packs.
func gatewayKnown(t testing.TB, packs ...*pack.Pack) rewrite.Sources {
	t.Helper()
	var images []*timeline.Image
	for slot, p := range packs {
		m, err := packimage.New(p, uint32(slot))
		require.NoError(t, err)
		images = append(images, m)
	}
	return rewrite.Sources{Snapshot: fixed(timeline.NewPackSnapshot(images...)), Packs: pack.NewSet(packs)}
}

// TestContract_10_2_Candidates verifies which frames a gateway accepts.
func TestContract_10_2_Candidates(t *testing.T) {
	known := gatewayKnown(t, corePack(t), ext4Pack(t))
	opts := withPacks
	opts.Gateway = true
	opts.IsForeign = func(pcommon.Resource) bool { return true } // which does not count
	other := "ffffffffffffffffffffffffffffffff"
	for _, tt := range []struct {
		name    string
		in      Frame
		outcome rewrite.Outcome
		builds  []string
		files   []string
	}{
		{name: "build id", in: Frame{Address: offLast, Type: "kernel", Mapping: vmlinux()}, builds: []string{kernelID}},
		{name: "file ID", in: Frame{Address: 3, Type: "kernel", Mapping: &Mapping{FileID: ext4Mapping().FileID}}, builds: []string{ext4ID}},
		{name: "no type", in: Frame{Address: offLast, Mapping: vmlinux()}, outcome: rewrite.OutcomeNoPack},
		{name: "absolute", in: Frame{Address: text + offLast, Type: "kernel", Mapping: vmlinux()}, outcome: rewrite.OutcomeNoPack},
		{name: "no mapping", in: Frame{Address: offLast, Type: "kernel"}, outcome: rewrite.OutcomeNoPack},
		{name: "no id", in: Frame{Address: offLast, Type: "kernel", Mapping: &Mapping{File: "vmlinux"}}, outcome: rewrite.OutcomeNoPack},
		{name: "another build", in: Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: other + other}},
			outcome: rewrite.OutcomeNoPack, builds: []string{other + other}},
		{name: "in capitals", in: Frame{Address: 1, Type: "kernel", Mapping: &Mapping{BuildID: strings.ToUpper(other)}},
			outcome: rewrite.OutcomeNoPack, builds: []string{other}},
		{name: "a path", in: Frame{Address: 1, Type: "kernel", Mapping: &Mapping{BuildID: "../../../../etc/passwd"}}, outcome: rewrite.OutcomeNoPack},
		{name: "short", in: Frame{Address: 1, Type: "kernel", Mapping: &Mapping{BuildID: other[:15]}}, outcome: rewrite.OutcomeNoPack},
		{name: "another file ID", in: Frame{Address: 1, Type: "kernel", Mapping: &Mapping{FileID: other}},
			outcome: rewrite.OutcomeNoPack, files: []string{other}},
		{name: "no file ID", in: Frame{Address: 1, Type: "kernel", Mapping: &Mapping{FileID: other + other}}, outcome: rewrite.OutcomeNoPack},
		{name: "named, another build", in: withName(Frame{Address: 1, Type: "kernel", Mapping: &Mapping{BuildID: other}}, "f"),
			outcome: rewrite.OutcomeNamed, builds: []string{other}},
		{name: "named with a line, another build",
			in:      Frame{Address: 1, Type: "kernel", Mapping: &Mapping{BuildID: other}, Lines: []Line{{Name: "f", Line: 1}}},
			outcome: rewrite.OutcomeNamed},
		{name: "beyond the code", in: Frame{Address: 1 << 40, Type: "kernel", Mapping: vmlinux()}, outcome: rewrite.OutcomeUnresolved},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, result := linesAt(t, opts, tt.in, known)
			origin := timeline.OriginKernel
			if tt.name == "file ID" {
				origin = timeline.OriginModule
			}
			assert.Equal(t, one(tt.outcome, origin), result.Counts)
			assert.ElementsMatch(t, tt.builds, result.BuildIDs)
			assert.ElementsMatch(t, tt.files, result.FileIDs)
			if tt.outcome == rewrite.OutcomeResolved {
				assert.NotZero(t, got.Lines[0].Line)
			} else {
				assert.Equal(t, tt.in, got)
			}
		})
	}
}

// TestContract_10_2_UnknownCore: a frame in a core kernel without a pack may be in entry code or a thunk. So
// the next frame, in a module, stays as it came.
func TestContract_10_2_UnknownCore(t *testing.T) {
	w := pack.NewWriter(pack.Info{
		BuildID: kernelID, Name: pack.KernelName, Arch: "amd64", Extent: pack.Range{End: textSize},
		Marks: pack.Marks{Entry: pack.Range{Start: offC, End: 0x100}},
	})
	core := withSymbols(t, w, testSnapshot(t).Core())
	mapping := ext4Mapping()
	mapping.Limit = 1 << 20
	perf := *vmlinux()
	perf.Limit = 1 << 20
	module := Frame{Address: 0x100, Type: "kernel", Mapping: mapping}
	opts := withPacks
	opts.Gateway = true
	for _, tt := range []struct {
		name    string
		before  Frame
		unknown string // the module's function without the core's pack
		known   string // and with it
		builds  []string
	}{
		{"entry code", Frame{Address: offC + 4, Type: "kernel", Mapping: &perf}, "", "ext4_write", []string{kernelID}},
		{"named entry code", Frame{Address: offC + 4, Type: "kernel", Mapping: &perf, Lines: []Line{{Name: "c", Line: 40}}},
			"", "ext4_write", []string{kernelID}},
		{"other code", Frame{Address: offB, Type: "kernel", Mapping: &perf}, "", "ext4_read", []string{kernelID}},
		{"absolute", Frame{Address: text + offC + 4, Type: "kernel", Mapping: &perf}, "", "", nil},
		{"no mapping", Frame{Address: text + offC + 4, Type: "kernel"}, "", "", nil},
		{"another module", Frame{Address: offC + 4, Type: "kernel", Mapping: &Mapping{File: "xfs", BuildID: kernelID[:32]}},
			"ext4_read", "ext4_read", []string{kernelID[:32]}},
		{"BPF", Frame{Address: offC + 4, Type: "kernel", Mapping: &Mapping{File: "[bpf]"}}, "ext4_read", "ext4_read", nil},
		{"user code", Frame{Address: offC + 4, Type: "native"}, "ext4_read", "ext4_read", nil},
	} {
		for _, scope := range []string{"perf", "go.opentelemetry.io/ebpf-profiler"} {
			t.Run(tt.name+" "+scope, func(t *testing.T) {
				at := func(packs ...*pack.Pack) (Frame, rewrite.Result) {
					entered := module
					if scope != "perf" {
						entered.Address--
					}
					m := rewritetest.NewMessage().Profile(nil, scope).Sample(Frame{Address: 0x42, Type: "native"}, tt.before, entered)
					result := rewriteKnown(t, opts, m.Profiles, gatewayKnown(t, packs...))
					got := rewritetest.Samples(result.Profiles)[0].Stack[2]
					if len(got.Lines) == 0 {
						assert.Equal(t, entered, got)
						return got, result
					}
					return got, result
				}
				got, result := at(ext4Pack(t))
				assert.Equal(t, tt.unknown, outermost(got))
				for _, id := range tt.builds {
					assert.Contains(t, result.BuildIDs, id, "so that the store fetches it")
				}
				if tt.unknown == "" {
					assert.Zero(t, result.Counts[rewrite.OutcomeResolved])
					assert.NotZero(t, result.Counts[rewrite.OutcomeNoPack][timeline.OriginKernel])
				}
				got, result = at(ext4Pack(t), core)
				assert.Equal(t, tt.known, outermost(got))
				for _, id := range tt.builds {
					assert.Contains(t, result.BuildIDs, id, "so that the store keeps it")
				}
			})
		}
	}
}

func outermost(f Frame) string {
	if len(f.Lines) == 0 {
		return ""
	}
	return f.Lines[len(f.Lines)-1].Name
}

// TestContract_10_2_UnknownRole: if nothing gives the kernel of a frame, the next frame in the core kernel
// gets a name only if it is the same for an exact frame and for a caller.
func TestContract_10_2_UnknownRole(t *testing.T) {
	opts := withPacks
	opts.Gateway = true
	perf := *vmlinux()
	perf.Limit = 1 << 20
	absolute := Frame{Address: text + offB, Type: "kernel"}
	noID := Frame{Address: offB, Type: "kernel", Mapping: &Mapping{File: "vmlinux"}}
	bpf := Frame{Address: 0x42, Type: "kernel", Lines: []Line{{Name: "my_prog"}}} // as the profiler has it
	for _, tt := range []struct {
		name     string
		before   Frame
		ip       uint64
		perf     string
		profiler string
	}{
		{"at an edge", absolute, offC, "", ""},
		{"at an edge, without an id", noID, offC, "", ""},
		{"inside", absolute, offC + 8, "", "c"}, // in the form of others, the address that is looked up is written
		{"at the first line of another function", noID, offA + 16, "", ""},
		{"behind BPF", bpf, offC, "", "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for scope, want := range map[string]string{"perf": tt.perf, "go.opentelemetry.io/ebpf-profiler": tt.profiler} {
				f := Frame{Address: tt.ip, Type: "kernel", Mapping: &perf}
				if scope != "perf" {
					f.Address--
					f.Mapping = vmlinux()
				}
				after := f
				after.Address += 0x20 // a caller, whatever it is a caller of
				m := rewritetest.NewMessage().Profile(nil, scope).Sample(Frame{Address: 0x42, Type: "native"}, tt.before, f, after)
				result := rewriteKnown(t, opts, m.Profiles, gatewayKnown(t, corePack(t)))
				stack := rewritetest.Samples(result.Profiles)[0].Stack
				assert.Equal(t, want, outermost(stack[2]), scope)
				if want == "" {
					assert.Equal(t, f, stack[2])
				}
				assert.NotEmpty(t, outermost(stack[3]), scope)
			}
		})
	}
}

// TestContract_10_2_UnknownCoreSplits: the same location is certain as a leaf.
func TestContract_10_2_UnknownCoreSplits(t *testing.T) {
	mapping := ext4Mapping()
	mapping.Limit = 1 << 20
	module := Frame{Address: 0x100, Type: "kernel", Mapping: mapping}
	opts := withPacks
	opts.Gateway = true
	m := rewritetest.NewMessage().Profile(nil, "").Sample(module).Sample(Frame{Address: offC, Type: "kernel", Mapping: vmlinux()}, module)
	result := rewriteKnown(t, opts, m.Profiles, gatewayKnown(t, ext4Pack(t)))
	samples := rewritetest.Samples(result.Profiles)
	assert.Equal(t, "ext4_write", outermost(samples[0].Stack[0]))
	assert.Equal(t, module, samples[1].Stack[1])
}

// TestContract_10_2_NoAddressOfOurs: code of a module below .text has no relative form, and a gateway has no
// absolute one.
func TestContract_10_2_NoAddressOfOurs(t *testing.T) {
	w := pack.NewWriter(pack.Info{
		BuildID: ext4ID, Name: "ext4", Arch: "amd64", Base: 0x100, Extent: pack.Range{End: 0x200},
	})
	w.Symbol(pack.Symbol{Range: pack.Range{End: 0x100}, Name: "below"})
	w.Symbol(pack.Symbol{Range: pack.Range{Start: 0x100, End: 0x200}, Name: "text"})
	known := gatewayKnown(t, readPack(t, w))
	opts := withPacks
	opts.Gateway = true
	mapping := ext4Mapping()
	mapping.Limit = 1 << 20 // not in looked-up form
	f := Frame{Address: 0, Type: "kernel", Mapping: mapping}
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: 0x42, Type: "native"}, f).Sample(f)
	samples := rewritetest.Samples(rewriteKnown(t, opts, m.Profiles, known).Profiles)
	assert.Equal(t, f, samples[0].Stack[1], "a caller, in the code below .text")
	assert.Equal(t, "text", nameIn(samples[1].Stack[0]))
	assert.Zero(t, samples[1].Stack[0].Address)
}

// TestPassthroughWithPacks: a message whose frames already have lines is passed on without an allocation.
func TestPassthroughWithPacks(t *testing.T) {
	for _, gateway := range []bool{false, true} {
		opts, known := withPacks, rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: testPacks(t)}
		if opts.Gateway = gateway; gateway {
			known = gatewayKnown(t, corePack(t))
		}
		f := Frame{Address: offLast, Type: "kernel", Mapping: vmlinux(), Lines: []Line{{Name: "last", Line: 70}}}
		m := rewritetest.NewMessage().Profile(nil, "").Sample(f)
		r := rewrite.New(opts)
		r.Rewrite(m.Profiles, known)
		assert.Zero(t, testing.AllocsPerRun(100, func() { r.Rewrite(m.Profiles, known) }))
	}
}

// TestManyBuilds: the cost of unknown build ids is proportional to their number.
func TestManyBuilds(t *testing.T) {
	opts := withPacks
	opts.Gateway = true
	message := func(n int) pprofile.Profiles {
		m := rewritetest.NewMessage().Profile(nil, "").Sample()
		d := m.Profiles.Dictionary()
		stack := d.StackTable().At(int(m.LastSample().StackIndex())).LocationIndices()
		key := m.Attribute("process.executable.build_id.gnu", "0") // for its key
		kernel := m.Attribute("profile.frame.type", "kernel")
		for i := range n {
			attr := d.AttributeTable().AppendEmpty()
			attr.SetKeyStrindex(d.AttributeTable().At(int(key)).KeyStrindex())
			attr.Value().SetStr(fmt.Sprintf("%040x", i))
			d.MappingTable().AppendEmpty().AttributeIndices().Append(int32(d.AttributeTable().Len() - 1))
			loc := d.LocationTable().AppendEmpty()
			loc.SetMappingIndex(int32(d.MappingTable().Len() - 1))
			loc.AttributeIndices().Append(kernel)
			stack.Append(int32(d.LocationTable().Len() - 1))
		}
		return m.Profiles
	}
	known := gatewayKnown(t)
	result := rewrite.New(opts).Rewrite(message(20_000), known)
	assert.Len(t, result.BuildIDs, 20_000)
	assert.Equal(t, 20_000, result.Counts[rewrite.OutcomeNoPack][timeline.OriginKernel])
}
