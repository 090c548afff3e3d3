// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestContract_1_2_NamedFramesGetRelativeAddresses verifies that a frame that came with a name of the kernel's for its code
// keeps it, and gets the address and the mapping of any other frame; and that a frame with another name does not change.
func TestContract_1_2_NamedFramesGetRelativeAddresses(t *testing.T) {
	perf := &Mapping{File: "[kernel.kallsyms]_text", Start: text, Limit: text + textSize, Offset: text}
	for _, tt := range []struct {
		name string
		in   Frame
		want Frame
	}{
		{"its name", withName(Frame{Address: text + offA + 4, Mapping: perf}, "a"),
			withName(Frame{Address: offA + 4, Type: "kernel", Mapping: vmlinux()}, "a")},
		{"an alias", withName(Frame{Address: text + offE + 4, Mapping: perf}, "e_alias"),
			withName(Frame{Address: offE + 4, Type: "kernel", Mapping: vmlinux()}, "e_alias")},
		{"another name", withName(Frame{Address: text + offA + 4, Mapping: perf}, "b"),
			withName(Frame{Address: text + offA + 4, Mapping: perf}, "b")},
		{"a name where none is known", withName(Frame{Address: text + 0x110}, "x"), withName(Frame{Address: text + 0x110}, "x")},
		{"relative", withName(Frame{Address: offA + 4, Type: "kernel", Mapping: vmlinux()}, "a"),
			withName(Frame{Address: offA + 4, Type: "kernel", Mapping: vmlinux()}, "a")},
	} {
		got, counts := leaf(t, rewrite.Options{}, tt.in)
		assert.Equal(t, tt.want, got, tt.name)
		assert.Equal(t, one(rewrite.OutcomeNamed, timeline.OriginKernel), counts, tt.name)
		got, _ = leaf(t, rewrite.Options{Addresses: rewrite.KeepAddresses}, tt.in)
		assert.Equal(t, tt.in, got, tt.name)
	}
}

// TestContract_4_1_Hide verifies what is written for absolute addresses without a relative form, and for the mappings that
// cover the kernel.
func TestContract_4_1_Hide(t *testing.T) {
	const nowhere, vsyscall = 0xffffffffa0000000, 0xffffffffff600000
	page := &Mapping{File: "[vsyscall]", Start: vsyscall, Limit: vsyscall + 0x1000}
	perf := &Mapping{File: "[kernel.kallsyms]_text", Start: text, Limit: text + textSize, Offset: text}
	other := &Mapping{File: "vmlinux", Start: text, Limit: text + textSize, BuildID: "00112233445566778899aabbccddeeff00112233"}
	guest := &Mapping{File: "[guest.kernel.kallsyms]", Start: text, Limit: text + textSize}
	for _, tt := range []struct {
		name     string
		in, want Frame
	}{
		{"a known function", Frame{Address: text + offA + 4, Mapping: perf}, withName(Frame{Address: offA + 4, Type: "kernel", Mapping: vmlinux()}, "a")},
		{"an unknown owner", Frame{Address: nowhere, Mapping: perf}, Frame{Type: "kernel"}},
		{"text below .text", Frame{Address: oddLow + 1, Type: "kernel"}, withName(Frame{Type: "kernel"}, "odd_cold")},
		{"a name that is not the kernel's", withName(Frame{Address: text + offA + 4, Mapping: perf}, "x"), withName(Frame{Type: "kernel"}, "x")},
		{"a named frame of an unknown owner", withName(Frame{Address: nowhere, Type: "kernel"}, "bpf_prog_1"), withName(Frame{Type: "kernel"}, "bpf_prog_1")},
		{"a guest", Frame{Address: text + 4, Mapping: guest}, Frame{Type: "kernel"}},
		{"another build", Frame{Address: text + 4, Mapping: other}, Frame{Type: "kernel"}},
		{"a relative frame", Frame{Address: offA + 4, Type: "kernel", Mapping: vmlinux()}, withName(Frame{Address: offA + 4, Type: "kernel", Mapping: vmlinux()}, "a")},
		{"the vsyscall page", Frame{Address: vsyscall + 4, Type: "kernel"}, Frame{Address: vsyscall + 4, Type: "kernel"}},
		{"the vsyscall page, with a name", withName(Frame{Address: vsyscall + 4, Type: "kernel", Mapping: page}, "x"), withName(Frame{Address: vsyscall + 4, Type: "kernel", Mapping: page}, "x")},
		{"perf's marker of user code", Frame{Address: 0xfffffffffffffe00, Type: "kernel"}, Frame{Address: 0xfffffffffffffe00, Type: "kernel"}},
		{"a marker in the kernel's mapping", Frame{Address: 0xffffffffffffff80, Mapping: perf}, Frame{Address: 0xffffffffffffff80, Type: "kernel"}},
		{"the end of the vsyscall page", Frame{Address: vsyscall + 0x1000}, Frame{Type: "kernel"}},
		{"user code", Frame{Address: 0x1234, Type: "native", Mapping: &Mapping{File: "app", Start: 0x1000, Limit: 0x2000}},
			Frame{Address: 0x1234, Type: "native", Mapping: &Mapping{File: "app", Start: 0x1000, Limit: 0x2000}}},
	} {
		got, _ := leaf(t, rewrite.Options{Addresses: rewrite.HideAddresses}, tt.in)
		assert.Equal(t, tt.want, got, tt.name)
	}
}

// TestContract_4_1_HideAtAGateway verifies that a gateway hides the addresses of named frames, too, if it is told to.
func TestContract_4_1_HideAtAGateway(t *testing.T) {
	perf := &Mapping{File: "[kernel.kallsyms]_text", Start: text, Limit: text + textSize, Offset: text}
	in := withName(Frame{Address: text + offA + 4, Type: "kernel", Mapping: perf}, "a")
	for addresses, want := range map[rewrite.Addresses]Frame{
		rewrite.HideAddresses: withName(Frame{Type: "kernel"}, "a"), rewrite.AutoAddresses: in,
	} {
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(in)
		result := rewriteKnown(t, rewrite.Options{Gateway: true, Addresses: addresses}, m.Profiles, gatewayKnown(t, corePack(t)))
		assert.Equal(t, want, rewritetest.Samples(result.Profiles)[0].Stack[0])
	}
}

// TestContract_4_1_HiddenSymbols verifies that addresses are hidden by default as long as the core kernel's symbols are not
// known, and that the setting relative sends them.
func TestContract_4_1_HiddenSymbols(t *testing.T) {
	in := Frame{Address: text + offA + 4, Type: "kernel", Mapping: &Mapping{File: "[kernel.kallsyms]_text", Start: text, Limit: text + textSize, Offset: text}}
	for _, tt := range []struct {
		addresses rewrite.Addresses
		want      uint64
	}{{rewrite.AutoAddresses, 0}, {rewrite.HideAddresses, 0}, {rewrite.RelativeAddresses, in.Address}, {rewrite.KeepAddresses, in.Address}} {
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(in)
		got, counts := runWith(t, rewrite.Options{Addresses: tt.addresses}, m.Profiles, timeline.NewSnapshot())
		assert.Equal(t, tt.want, got[0].Stack[0].Address)
		assert.Equal(t, one(rewrite.OutcomeUnresolved, timeline.OriginKernel), counts)
		assert.Equal(t, tt.want == 0, shown(m.Profiles) == 0)
	}
}

// TestContract_4_1_HideWhatIsNotKnown verifies that addresses are hidden whatever ids come with them: while the kernel is not
// known, nobody can tell whether these are its own.
func TestContract_4_1_HideWhatIsNotKnown(t *testing.T) {
	located := timeline.NewSnapshot(timeline.NewTable(testSnapshot(t).Core().AsLocated()))
	withoutModules := timeline.NewSnapshot(testSnapshot(t).Tables()[0])
	kernel := &Mapping{File: "[kernel.kallsyms]", Start: text, Limit: text + textSize, Offset: text, BuildID: kernelID}
	fileID := &Mapping{File: "vmlinux", Start: text, Limit: text + textSize, FileID: vmlinux().FileID}
	module := &Mapping{File: "ext4.ko", Start: ext4, Limit: ext4 + ext4Size, BuildID: ext4ID}
	for name, tt := range map[string]struct {
		is *timeline.Snapshot
		in Frame
	}{
		"the kernel's build id":     {timeline.NewSnapshot(), Frame{Address: text + offA + 4, Mapping: kernel}},
		"its file ID":               {timeline.NewSnapshot(), Frame{Address: text + offA + 4, Type: "kernel", Mapping: fileID}},
		"a module, kernel located":  {located, Frame{Address: ext4 + 4, Type: "kernel", Mapping: module}},
		"a module that is not read": {withoutModules, Frame{Address: ext4 + 4, Mapping: module}},
		"a module by its name":      {withoutModules, Frame{Address: ext4 + 4, Mapping: &Mapping{File: "[ext4]", Start: ext4, Limit: ext4 + ext4Size}}},
		"another file":              {withoutModules, Frame{Address: ext4 + 4, Mapping: &Mapping{File: "app", Start: 1, Limit: 2}}},
	} {
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(tt.in)
		got := rewriteTwice(t, rewrite.Options{Addresses: rewrite.HideAddresses}, m.Profiles, rewrite.Sources{Snapshot: fixed(tt.is), Local: true})
		assert.Zero(t, shown(got), name)
		assert.Equal(t, Frame{Type: "kernel"}, rewritetest.Samples(got)[0].Stack[0], name)
	}
}

// TestContract_10_5_LocatedKernel verifies that frames of local senders have names while the kernel is located, that
// relative addresses of all senders have, and that addresses are hidden by default.
func TestContract_10_5_LocatedKernel(t *testing.T) {
	const nowhere = 0xffffffffa0000000
	named := withName(Frame{Address: offA + 4, Type: "kernel", Mapping: vmlinux()}, "a")
	located := fixed(timeline.NewSnapshot(timeline.NewTable(testSnapshot(t).Core().AsLocated())))
	for _, tt := range []struct {
		name      string
		addresses rewrite.Addresses
		local     bool
		in, want  Frame
	}{
		{"local", rewrite.AutoAddresses, true, Frame{Address: text + offA + 4, Type: "kernel"}, named},
		{"network", rewrite.AutoAddresses, false, Frame{Address: text + offA + 4, Type: "kernel"}, Frame{Type: "kernel"}},
		{"network, relative", rewrite.AutoAddresses, false, Frame{Address: offA + 4, Type: "kernel", Mapping: vmlinux()}, named},
		{"no owner", rewrite.AutoAddresses, true, Frame{Address: nowhere, Type: "kernel"}, Frame{Type: "kernel"}},
		{"no owner, by request", rewrite.RelativeAddresses, true, Frame{Address: nowhere, Type: "kernel"}, Frame{Address: nowhere, Type: "kernel"}},
		{"local, by request", rewrite.RelativeAddresses, true, Frame{Address: text + offA + 4, Type: "kernel"}, named},
	} {
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(tt.in)
		sources := rewrite.Sources{Snapshot: located, Local: tt.local}
		got, _ := rewritten(t, rewrite.New(rewrite.Options{Addresses: tt.addresses}), m.Profiles, sources)
		assert.Equal(t, tt.want, rewritetest.Samples(got)[0].Stack[0], tt.name)
	}
}

// TestContract_4_1_HideInAnyMessage verifies that absolute addresses are hidden in messages of other hosts, in messages with
// dangling references, and where no frame is kernel code.
func TestContract_4_1_HideInAnyMessage(t *testing.T) {
	in := Frame{Address: text + offA + 4, Type: "kernel", Mapping: &Mapping{File: "[kernel.kallsyms]_text", Start: text, Limit: text + textSize, Offset: text}}
	otherHost := rewrite.Options{Addresses: rewrite.HideAddresses, IsForeign: isOther}
	hide := rewrite.Options{Addresses: rewrite.HideAddresses}
	mappingAlone := rewritetest.NewMessage().Profile(nil, "scope").Sample(in)
	mappingAlone.Profiles.Dictionary().LocationTable().RemoveIf(func(loc pprofile.Location) bool { return loc.Address() != 0 })
	mappingAlone.Profiles.Dictionary().StackTable().RemoveIf(func(s pprofile.Stack) bool { return s.LocationIndices().Len() > 0 })
	mappingAlone.LastSample().SetStackIndex(0)
	dangling := rewritetest.NewMessage().Profile(nil, "scope").Sample(in)
	dangling.LastSample().SetStackIndex(99)
	for name, tt := range map[string]struct {
		opts    rewrite.Options
		message *rewritetest.Message
	}{
		"another host":       {otherHost, rewritetest.NewMessage().Profile(map[string]any{"host.name": "other"}, "scope").Sample(in)},
		"dangling":           {hide, dangling},
		"a mapping, no more": {hide, mappingAlone},
		"read-only":          {hide, readOnly(rewritetest.NewMessage().Profile(nil, "scope").Sample(in))},
	} {
		require.Positive(t, shown(tt.message.Profiles), name)
		got, _ := rewritten(t, rewrite.New(tt.opts), tt.message.Profiles, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
		assert.Zero(t, shown(got), name)
	}
}

func readOnly(m *rewritetest.Message) *rewritetest.Message {
	m.Profiles.MarkReadOnly()
	return m
}

// TestContract_4_1_HideRemovesPayloads verifies that the data that profiles were made from goes where addresses are hidden,
// whatever its format, and whether or not the message has frames of the kernel; and that it stays otherwise.
func TestContract_4_1_HideRemovesPayloads(t *testing.T) {
	kernel, user := Frame{Address: text + offA + 4, Type: "kernel"}, Frame{Address: 0x1234, Type: "native"}
	known, unknown := testSnapshot(t), timeline.NewSnapshot()
	for _, tt := range []struct {
		addresses rewrite.Addresses
		gateway   bool
		is        *timeline.Snapshot
		removed   bool
	}{
		{rewrite.HideAddresses, false, known, true},
		{rewrite.HideAddresses, false, unknown, true},
		{rewrite.HideAddresses, true, timeline.NewPackSnapshot(), true},
		{rewrite.AutoAddresses, false, unknown, true},
		{rewrite.AutoAddresses, false, timeline.NewSnapshot(timeline.NewTable(known.Core().AsLocated())), true},
		{rewrite.AutoAddresses, false, known, false},
		{rewrite.AutoAddresses, true, timeline.NewPackSnapshot(), false},
		{rewrite.RelativeAddresses, false, unknown, false},
		{rewrite.KeepAddresses, false, known, false},
	} {
		opts := rewrite.Options{Addresses: tt.addresses, Gateway: tt.gateway, IsForeign: isOther}
		dangling := rewritetest.NewMessage().Profile(nil, "scope").Sample(kernel)
		dangling.LastSample().SetStackIndex(99)
		for name, m := range map[string]*rewritetest.Message{
			"kernel code":  rewritetest.NewMessage().Profile(nil, "scope").Sample(kernel),
			"user code":    rewritetest.NewMessage().Profile(nil, "scope").Sample(user),
			"no sample":    rewritetest.NewMessage().Profile(nil, "scope"),
			"another host": rewritetest.NewMessage().Profile(map[string]any{"host.name": "other"}, "scope").Sample(kernel),
			"dangling":     dangling,
		} {
			setPayload(m.LastProfile(), "linux_perf", "\x54\x00\x00\x81\xff\xff\xff\xff")
			setPayload(m.Profile(nil, "").LastProfile(), "", "PERFILE2")
			setPayload(m.Profile(nil, "").LastProfile(), "pprof", "")
			want := [][2]string{{"linux_perf", "\x54\x00\x00\x81\xff\xff\xff\xff"}, {"", "PERFILE2"}, {"pprof", ""}}
			if tt.removed {
				want = [][2]string{{"", ""}, {"", ""}, {"pprof", ""}}
			}
			got := rewriteTwice(t, opts, readOnly(m).Profiles, rewrite.Sources{Snapshot: fixed(tt.is)})
			assert.Equal(t, want, payloads(got), "%s, %+v", name, tt)
		}
	}
}

func setPayload(p pprofile.Profile, format, payload string) {
	p.SetOriginalPayloadFormat(format)
	p.OriginalPayload().FromRaw([]byte(payload))
}

// payloads returns the format and the original payload of each profile.
func payloads(pd pprofile.Profiles) (all [][2]string) {
	for _, p := range rewritetest.Profiles(pd) {
		all = append(all, [2]string{p.OriginalPayloadFormat(), string(p.OriginalPayload().AsRaw())})
	}
	return all
}

// TestContract_4_1_HideKeepsForms verifies that relative addresses, 0 among them, keep their form where the mapping that they
// are in covers the kernel: with a limit of 0, they would be in looked-up form.
func TestContract_4_1_HideKeepsForms(t *testing.T) {
	for _, tt := range []struct {
		addr     uint64
		in, want Mapping
	}{
		{0x99, Mapping{File: "[kernel.kallsyms]", Start: text, Limit: text + textSize, Offset: text}, Mapping{File: "[kernel.kallsyms]", Limit: textSize}},
		{0, Mapping{File: "[kernel.kallsyms]", Start: text, Limit: text + textSize, Offset: text}, Mapping{File: "[kernel.kallsyms]", Limit: textSize}},
		{0, Mapping{File: "ext4", BuildID: ext4ID, Start: ext4, Limit: ext4 + ext4Size}, Mapping{File: "ext4", BuildID: ext4ID, Limit: ext4Size}},
		{0x99, Mapping{File: "[kernel.kallsyms]", Start: 0x1000, Limit: text + 0x1000}, Mapping{File: "[kernel.kallsyms]", Limit: math.MaxInt64}},
		{0x99, Mapping{File: "[kernel.kallsyms]", Limit: text + 0x1000}, Mapping{File: "[kernel.kallsyms]", Limit: math.MaxInt64}},
	} {
		m := rewritetest.NewMessage().Profile(nil, "scope").
			Sample(Frame{Address: 0x42, Type: "native"}, Frame{Address: tt.addr, Type: "kernel", Mapping: &tt.in})
		got, counts := runWith(t, rewrite.Options{Addresses: rewrite.HideAddresses}, m.Profiles, testSnapshot(t))
		assert.Equal(t, Frame{Address: tt.addr, Type: "kernel", Mapping: &tt.want}, got[0].Stack[1])
		assert.Equal(t, one(rewrite.OutcomeUnresolved, timeline.OriginKernel), counts)
	}
}

// shown returns the number of places in which a message shows an address of the kernel half, without the vsyscall page.
func shown(pd pprofile.Profiles) (n int) {
	count := func(addresses ...uint64) {
		for _, addr := range addresses {
			if symbolize.IsKernelAddress(addr) {
				n++
			}
		}
	}
	for _, loc := range pd.Dictionary().LocationTable().All() {
		count(loc.Address())
	}
	for _, m := range pd.Dictionary().MappingTable().All() {
		count(m.MemoryStart(), m.MemoryLimit()-1, m.FileOffset())
	}
	return n
}
