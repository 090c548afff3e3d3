// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// rewriteTwice verifies that a second pass changes nothing, and returns what the first one made.
func rewriteTwice(t *testing.T, opts rewrite.Options, pd pprofile.Profiles, sources rewrite.Sources) pprofile.Profiles {
	t.Helper()
	r := rewrite.New(opts)
	once := r.Rewrite(pd, sources).Profiles
	before := marshal(t, once)
	require.True(t, bytes.Equal(before, marshal(t, r.Rewrite(once, sources).Profiles)), "%+v: a second pass changes the message", opts)
	return once
}

// TestContract_4_5_HiddenEntryCode: a frame whose address is hidden may have been in entry code, so the role of the next frame
// is as little known to a second pass as to the first one.
func TestContract_4_5_HiddenEntryCode(t *testing.T) {
	app := Frame{Address: 1, Type: "native", Mapping: &Mapping{File: "app"}}
	perf := &Mapping{File: "[kernel.kallsyms]_text", Start: text, Limit: text + 0x2000, Offset: text}
	next := Frame{Address: 0x100, Type: "kernel", Mapping: &Mapping{File: "ext4", BuildID: ext4ID, Limit: 1 << 20}}
	nextInCore := Frame{Address: offC, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: kernelID, Limit: 1 << 20}}
	marked := rewrite.Sources{Snapshot: fixed(markedSnapshot(t, marks()))}
	hide := rewrite.Options{Addresses: rewrite.HideAddresses}
	guessed, gateway := hide, hide
	guessed.AbsoluteFromLocal, gateway.Gateway = true, true
	for _, frameType := range []string{"", "kernel"} {
		stack := func(entry, next Frame) pprofile.Profiles {
			entry.Type = frameType
			return rewritetest.NewMessage().Profile(nil, "scope").Sample(app, entry, next).Profiles
		}
		named := withName(Frame{Address: entryText + 8, Mapping: perf}, "entry_page_fault+0x8")
		got := rewriteTwice(t, guessed, stack(named, next), marked)
		assert.Equal(t, []Frame{app, withName(Frame{Type: "kernel"}, "entry_page_fault+0x8"), next}, rewritetest.Samples(got)[0].Stack)
		for _, mapping := range []*Mapping{nil, perf} {
			got := rewriteTwice(t, gateway, stack(Frame{Address: entryText + 8, Mapping: mapping}, nextInCore), gatewayKnown(t, corePack(t)))
			assert.Equal(t, []Frame{app, {Type: "kernel"}, nextInCore}, rewritetest.Samples(got)[0].Stack)
		}
	}
}

// TestContract_1_6_HideWhatMayBeOther verifies that the address of a frame that is kernel code in one reading of the message
// alone is hidden, and that the role of the next frame stays unknown.
func TestContract_1_6_HideWhatMayBeOther(t *testing.T) {
	next := Frame{Address: 0x100, Type: "kernel", Mapping: &Mapping{File: "ext4", BuildID: ext4ID, Limit: 1 << 20}}
	pd := merged(t, rewritetest.NewMessage().Profile(nil, "scope").Sample(
		Frame{Address: 1, Type: "native", Mapping: &Mapping{File: "app"}}, Frame{Address: entryText + 8}, next))
	got := rewriteTwice(t, rewrite.Options{Addresses: rewrite.HideAddresses}, pd, rewrite.Sources{Snapshot: fixed(markedSnapshot(t, marks()))})
	stack := rewritetest.Samples(got)[0].Stack
	assert.Equal(t, Frame{Type: "kernel", Mapping: new(Mapping)}, stack[1])
	assert.Empty(t, nameIn(stack[2]))
}

// TestContract_4_5_BudgetOfDeepStacks: frames of a stack that have several roles have their names after one pass. What is left
// of the budget for the other frames is the same in the next.
func TestContract_4_5_BudgetOfDeepStacks(t *testing.T) {
	const owners = 12
	for depth, isNamed := range map[int]bool{127: true, 2000: false} { // the first is the depth of perf's stacks by default
		m := rewritetest.NewMessage().Profile(nil, "")
		stack := []Frame{{Address: slot + 8, Type: "kernel"}}
		for i := range uint64(depth - 1) {
			stack = append(stack, Frame{Address: text + offLast + 8 + i%100, Type: "kernel"})
		}
		m.Sample(stack...)
		var stamps []int64
		for i := range int64(owners) {
			stamps = append(stamps, owned(i), owned(i)+10*ms)
		}
		timed(m, stamps...)
		for _, f := range stack[1:] { // as leaves
			m.Sample(f)
			timed(m, owned(0))
		}
		got := rewriteTwice(t, withHistory, m.Profiles, knownAt(t, manyOwners(owners+1)))
		names := make(map[string]bool)
		for _, s := range rewritetest.Samples(got) {
			names[nameIn(s.Stack[0])] = true
		}
		assert.Equal(t, isNamed, names["p0"], depth)
	}
}

// TestContract_4_5_AgainChangesNothing rewrites random messages of random settings twice. Some have times at which code came
// and went.
func TestContract_4_5_AgainChangesNothing(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 2000
	}
	r := rand.New(rand.NewPCG(7, 9))
	pick := newPicker(t, r)
	named, split, hidden := 0, 0, 0
	for range rounds {
		opts := rewrite.Options{
			All: r.IntN(2) == 0, Addresses: pickOf(pick, rewrite.HideAddresses, rewrite.HideAddresses, rewrite.AutoAddresses, rewrite.RelativeAddresses, rewrite.KeepAddresses),
			Label: r.IntN(4) == 0, AbsoluteFromLocal: r.IntN(2) == 0, IsForeign: isOther, History: withHistory.History,
		}
		sources := rewrite.Sources{Snapshot: fixed(pickOf(pick, pick.snapshots...))}
		pick.isTimed = r.IntN(3) == 0
		switch {
		case pick.isTimed:
			sources = pick.histories[r.IntN(len(pick.histories))]
		case r.IntN(3) == 0:
			sources, opts.Gateway = pickOf(pick, pick.gateways...), true
		}
		if sources.Local = r.IntN(2) == 0; !opts.Gateway && r.IntN(3) == 0 {
			opts.DebugInfo, opts.Inline, sources.Packs = true, true, pick.packs
		}
		in := pick.message(t)
		before := copied(in)
		got := rewriteTwice(t, opts, in, sources)
		d := got.Dictionary()
		if d.FunctionTable().Len() > before.Dictionary().FunctionTable().Len() {
			named++
		}
		if d.LocationTable().Len() > before.Dictionary().LocationTable().Len() {
			split++
		}
		if shown(got) < shown(before) {
			hidden++
		}
	}
	for what, n := range map[string]int{"named": named, "split": split, "hidden": hidden} {
		assert.Greater(t, n, rounds/50, what)
	}
}

// picker picks parts of random messages.
type picker struct {
	r         *rand.Rand
	snapshots []*timeline.Snapshot
	packs     *pack.Set
	gateways  []rewrite.Sources
	histories []rewrite.Sources
	isTimed   bool // samples have times in the histories
	mappings  []*Mapping
}

func newPicker(t *testing.T, r *rand.Rand) *picker {
	shared := marks()
	shared.SharedTrampolines = true
	marked, trampolines := markedSnapshot(t, marks()), trampolineSnapshot(t, shared)
	history := knownAt(t, story(), manyOwners(manyTimes))
	withEntryCode := history
	withEntryCode.Snapshot = fixed(timeline.NewSnapshot(append(marked.Tables(), history.Snapshot().Tables()[2:]...)...))
	return &picker{
		r: r,
		snapshots: []*timeline.Snapshot{
			marked, trampolines, testSnapshot(t), nil,
			timeline.NewSnapshot(append([]*timeline.Table{timeline.NewTable(marked.Core().AsLocated())}, trampolines.Tables()[2:]...)...),
			timeline.NewSnapshot(trampolines.Tables()[1:]...),
		},
		packs:     testPacks(t),
		gateways:  []rewrite.Sources{gatewayKnown(t), gatewayKnown(t, corePack(t)), gatewayKnown(t, corePack(t), ext4Pack(t))},
		histories: []rewrite.Sources{history, withEntryCode},
		mappings: []*Mapping{
			nil, nil, {File: "[kernel.kallsyms]_text", Start: text, Limit: text + 0x2000, Offset: text}, {File: "[kernel.kallsyms]"},
			{File: "vmlinux", BuildID: kernelID, Limit: 1 << 20}, vmlinux(), {File: "vmlinux"}, {File: "[ext4]"},
			{File: "ext4", BuildID: ext4ID, Limit: 1 << 20}, ext4Mapping(), {File: "[guest.kernel.kallsyms]", Start: text, Limit: text + 0x1000},
			{File: "app"}, {File: ""}, {File: "vmlinux", BuildID: "00112233445566778899aabbccddeeff00112233"},
			{File: "vmlinux", Start: text, Limit: text + 0x2000, BuildID: kernelID}, {Start: text, Limit: text + 0x2000},
			{File: "[kernel.kallsyms]", Start: 0x1000, Limit: text + 0x1000}, {File: "[bpf]"}, {File: "odd_module", Limit: 1 << 20},
		},
	}
}

// manyTimes is the number of times in the histories.
const manyTimes = 12

func pickOf[T any](p *picker, of ...T) T { return of[p.r.IntN(len(of))] }

// message returns a message, or one that the collector merged from two.
func (p *picker) message(t *testing.T) pprofile.Profiles {
	var parts []*rewritetest.Message
	for range 1 + p.r.IntN(2) {
		m := rewritetest.NewMessage()
		for range 1 + p.r.IntN(2) {
			m.Profile(map[string]any{"host.name": pickOf(p, "a", "b", "other")}, pickOf(p, "scope", ebpfScope))
			for range 1 + p.r.IntN(2) {
				m.Sample(p.stack()...)
				if p.isTimed {
					timed(m, p.times()...)
				}
			}
		}
		parts = append(parts, m)
	}
	if p.r.IntN(2) == 0 {
		return parts[0].Profiles
	}
	pd := pprofile.NewProfiles()
	for _, m := range parts {
		require.NoError(t, m.Profiles.MergeTo(pd))
	}
	return pd
}

func (p *picker) times() (at []int64) {
	for range 1 + p.r.IntN(6) {
		owner := owned(int64(p.r.IntN(manyTimes)))
		at = append(at, pickOf(p, owner, owner+10*ms, nowBoot-9_000*ms, nowBoot-4_000*ms))
	}
	return at
}

// stack returns a stack, which may have a frame in entry code before one whose role that decides.
func (p *picker) stack() []Frame {
	stack := make([]Frame, 1+p.r.IntN(5))
	for i := range stack {
		stack[i] = p.frame()
		if i > 0 && p.r.IntN(6) == 0 {
			stack[i-1] = Frame{Address: entryText + 8, Type: pickOf(p, "", "kernel"), Mapping: pickOf(p, nil, p.mappings[2])}
			stack[i] = pickOf(p, Frame{Address: 0x100, Type: "kernel", Mapping: &Mapping{File: "ext4", BuildID: ext4ID, Limit: 1 << 20}},
				Frame{Address: offC, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: kernelID, Limit: 1 << 20}})
		}
	}
	return stack
}

func (p *picker) frame() Frame {
	base := pickOf[uint64](p, 0, 0, text, text, ext4, tramp, tramp2, trampProg, slot, oddLow, odd)
	offset := pickOf[uint64](p, 0, 1, 0x7f, 0x80, 0x81, 0x85, 0x89, 0xff, 0x100, 0x101, 0x105, 0x188, 0x190,
		0x1000, 0x1001, 0x1008, 0x1040, 0x1080, 0x1081, 0x1300, 0x1308, 0x1390, 0x400, 0x404, 0x505)
	f := Frame{Address: base + offset, Mapping: pickOf(p, p.mappings...), Type: pickOf(p, "", "", "", "kernel", "kernel", "kernel", "native")}
	name := pickOf(p, "", "", "", "x", "entry_page_fault", "a", "b", "c", "ext4_read", "ext4_write", "e_alias", "UNKNOWN", "bpf_trampoline_1")
	if name == "" {
		return f
	}
	return withName(f, name)
}
