// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

const ms = int64(time.Millisecond)

// Keys of attributes.
const (
	keyHasFunctions = "pprof.mapping.has_functions"
	keyHasFiles     = "pprof.mapping.has_filenames"
	keyHasInlined   = "pprof.mapping.has_inline_frames"
	keyHasLines     = "pprof.mapping.has_line_numbers"
	keyFolded       = "pprof.location.is_folded"
)

// isOther reports whether a resource is of another host.
func isOther(r pcommon.Resource) bool {
	host, ok := r.Attributes().Get("host.name")
	return ok && host.Str() == "other"
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	Frame   = rewritetest.Frame
	Mapping = rewritetest.Mapping
	Line    = rewritetest.Line
)

// The kernel of these tests. Its functions begin at these offsets from the text; the rest is padding.
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

func testSnapshot(t testing.TB) *timeline.Snapshot {
	t.Helper()
	core := timelinetest.NewImage(t, timelinetest.Text{
		Name: timeline.KernelName, Origin: timeline.OriginKernel, BuildID: kernelID,
		Base: text, Start: text, End: text + textSize, Landmarks: new(symtab.Landmarks),
	}, []timelinetest.Symbol{
		{Offset: 0, Name: "_text"},
		{Offset: offA, Name: "a"},
		{Offset: 0x40, Name: "__pfx_b"},
		{Offset: offB, Name: "b"},
		{Offset: offC, Name: "c"},
		{Offset: 0x100, Name: "__entry_text_end"},
		{Offset: 0x200, Name: "d"},
		{Offset: offRust, Name: rustName},
		{Offset: offE, Name: "e"},
		{Offset: offE, Name: "e_alias"},
		{Offset: offLast, Name: "last"},
	}...)
	module := timelinetest.NewImage(t, timelinetest.Text{
		Name: "ext4", Origin: timeline.OriginModule, BuildID: ext4ID,
		Base: ext4, Start: ext4, End: ext4 + ext4Size,
	}, []timelinetest.Symbol{
		{Offset: 0, Name: "ext4_read"},
		{Offset: 0x100, Name: "ext4_write"},
	}...)
	noBuild := timelinetest.NewImage(t, timelinetest.Text{
		Name: "odd_module", Origin: timeline.OriginModule,
		Base: odd, Start: oddLow, End: odd + oddSize,
	}, []timelinetest.Symbol{
		{Offset: 0, Name: "odd_cold"},
		{Offset: 0x100, Name: "__pfx_odd"},
		{Offset: odd - oddLow, Name: "odd"},
	}...)
	return timeline.NewSnapshot(
		timeline.NewTable(core),
		timeline.NewTable(module, noBuild),
	)
}

// fixed returns a function that always returns s.
func fixed(s *timeline.Snapshot) func() *timeline.Snapshot {
	return func() *timeline.Snapshot { return s }
}

// Mappings as they are written for relative addresses.
func vmlinux() *Mapping {
	return &Mapping{File: "vmlinux", BuildID: kernelID, FileID: buildid.FileID(kernelID)}
}

func ext4Mapping() *Mapping {
	return &Mapping{File: "ext4", BuildID: ext4ID, FileID: buildid.FileID(ext4ID)}
}

func withName(f Frame, name string) Frame {
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

// rewritten rewrites a message, valid or not, and checks the rules for every message.
func rewritten(t testing.TB, r *rewrite.Rewriter, pd pprofile.Profiles, known rewrite.Sources) (pprofile.Profiles, rewrite.Counts) {
	t.Helper()
	before := copied(pd)
	got := r.Rewrite(pd, known)
	require.NoError(t, rewritetest.CheckRewritten(before, got.Profiles))
	return got.Profiles, got.Counts
}

// checkTyped checks the rules that hold if the kernel's symbols are known.
func checkTyped(pd pprofile.Profiles, opts rewrite.Options) error {
	return rewritetest.CheckTyped(pd, func(rp pprofile.ResourceProfiles) bool {
		return opts.IsForeign != nil && opts.IsForeign(rp.Resource())
	})
}

// run rewrites a message, checks the rules for every message, and returns the rewritten samples.
func run(t testing.TB, opts rewrite.Options, pd pprofile.Profiles) ([]rewritetest.Sample, rewrite.Counts) {
	t.Helper()
	return runWith(t, opts, pd, testSnapshot(t))
}

func runWith(
	t testing.TB, opts rewrite.Options, pd pprofile.Profiles, snapshot *timeline.Snapshot,
) ([]rewritetest.Sample, rewrite.Counts) {
	t.Helper()
	require.NoError(t, rewritetest.CheckValid(pd), "before")
	before := copied(pd)
	readOnly := copied(pd)
	readOnly.MarkReadOnly()

	r := rewrite.New(opts)
	got, counts := rewritten(t, r, pd, rewrite.Sources{Snapshot: fixed(snapshot)})
	if pd != got {
		t.Error("another object")
	}
	require.NoError(t, checkTyped(pd, opts))
	after := marshal(t, pd)

	again, _ := rewritten(t, r, pd, rewrite.Sources{Snapshot: fixed(snapshot)})
	require.True(t, bytes.Equal(after, marshal(t, again)), "contract 4.5: processing the output again changes nothing")

	fromReadOnly, _ := rewritten(t, r, readOnly, rewrite.Sources{Snapshot: fixed(snapshot)})
	require.True(t, bytes.Equal(after, marshal(t, fromReadOnly)), "a read-only message is copied before it is rewritten")
	require.True(t, bytes.Equal(marshal(t, before), marshal(t, readOnly)), "the read-only message was not changed")
	return rewritetest.Samples(pd), counts
}

// leaf rewrites a frame that is the leaf of the only stack.
func leaf(t testing.TB, opts rewrite.Options, f Frame) (Frame, rewrite.Counts) {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f)
	samples, counts := run(t, opts, m.Profiles)
	return samples[0].Stack[0], counts
}

// caller rewrites a frame that called another one.
func caller(t testing.TB, opts rewrite.Options, f Frame) Frame {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: 0x42, Type: "native"}, f)
	samples, _ := run(t, opts, m.Profiles)
	return samples[0].Stack[1]
}

func one(o rewrite.Outcome, origin timeline.Origin) (c rewrite.Counts) {
	c[o][origin] = 1
	return c
}

func nameIn(f Frame) string {
	if len(f.Lines) == 0 {
		return ""
	}
	return f.Lines[0].Name
}

func hexOffset(v uint64) string { return fmt.Sprintf("+%#x", v) }

// addressesOf returns the setting that keeps addresses, or the one that makes them relative.
func addressesOf(keep bool) rewrite.Addresses {
	if keep {
		return rewrite.KeepAddresses
	}
	return rewrite.RelativeAddresses
}
