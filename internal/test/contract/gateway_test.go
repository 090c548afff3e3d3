// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packimage"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

var gatewaySeeds = flag.Int("gateway.seeds", 200, "number of random messages that go to a node and a gateway")

// A fleet is a node's kernel with the sources of the node, of a gateway, and of a gateway that lacks some
// packs.
type fleet struct {
	r       *rand.Rand
	opts    rewrite.Options
	images  []*modelImage // of the node: its core first
	node    rewrite.Sources
	gateway rewrite.Sources
	partial rewrite.Sources // of a gateway without some of the packs
}

func newFleet(t *testing.T, seed int64) *fleet {
	r := rand.New(rand.NewSource(seed))
	f := &fleet{r: r, opts: rewrite.Options{
		All: r.Intn(3) == 0, Label: r.Intn(4) == 0, DebugInfo: true, Inline: r.Intn(4) != 0,
		Addresses: rewrite.RelativeAddresses,
	}}
	f.images = f.kernel()
	packs := []*pack.Pack{}
	var packed []*timeline.Image
	for _, images := range [][]*modelImage{f.kernel(), f.images, f.kernel()} {
		for _, m := range images {
			packs = append(packs, newPack(r, m).Pack)
			image, err := packimage.New(packs[len(packs)-1], uint32(len(packs)-1))
			require.NoError(t, err)
			packed = append(packed, image)
		}
	}
	var mods []*timeline.Image
	for _, m := range f.images[1:] {
		mods = append(mods, m.WithLifetime(timeline.Always))
	}
	snapshot := timeline.NewSnapshot(timeline.NewTable(f.images[0].Image), timeline.NewTable(mods...))
	f.node = rewrite.Sources{Snapshot: func() *timeline.Snapshot { return snapshot }, Packs: pack.NewSet(packs)}
	gateway := timeline.NewPackSnapshot(packed...)
	f.gateway = rewrite.Sources{Snapshot: func() *timeline.Snapshot { return gateway }, Packs: f.node.Packs}
	var some []*pack.Pack
	var someImages []*timeline.Image
	for i := range packs {
		if r.Intn(2) == 0 {
			some, someImages = append(some, packs[i]), append(someImages, packed[i])
		}
	}
	partial := timeline.NewPackSnapshot(someImages...)
	f.partial = rewrite.Sources{Snapshot: func() *timeline.Snapshot { return partial }, Packs: pack.NewSet(some)}
	return f
}

// kernel returns a core kernel and modules.
func (f *fleet) kernel() []*modelImage {
	images := []*modelImage{newCore(f.r)}
	for i := range 3 {
		b := build{name: fmt.Sprintf("mod%d", i), id: hexID(f.r), seed: f.r.Int63(), below: uint64(f.r.Intn(2)) * 0x100}
		images = append(images, b.load(slots+uint64(i)*2*slotSize))
	}
	return images
}

// stack returns the addresses of a stack: in functions, at their edges, in entry code, and in thunks. Each
// has a relative form.
func (f *fleet) stack() (addrs []uint64) {
	in := func(m *modelImage, from, to uint64) {
		if at := from + uint64(f.r.Int63n(int64(to-from)+1)); at > m.base()+1 && at < m.end && m.contains(at) && m.contains(at-1) {
			addrs = append(addrs, at)
		}
	}
	for range 1 + f.r.Intn(6) {
		m := f.images[f.r.Intn(len(f.images))]
		s := m.symbols[f.r.Intn(len(m.symbols))]
		core := f.images[0]
		marks := core.Text.Landmarks
		switch f.r.Intn(6) {
		case 0:
			in(core, marks.Entry.Start, marks.Entry.End)
			in(m, s.start, s.start)
		case 1:
			thunk := marks.Thunks[f.r.Intn(len(marks.Thunks))]
			in(core, thunk.Start, thunk.End)
			in(m, s.start, s.start)
		case 2:
			in(core, marks.Fred.Start, marks.Fred.End)
		}
		in(m, s.start, s.end)
	}
	return addrs
}

// frame returns a frame for an address of the node: if relative, as senders without knowledge of the node
// send it; else, as in the node's memory. Both have the same lines.
func (f *fleet) frame(addr uint64, profiler, relative bool, lines []rewritetest.Line) rewritetest.Frame {
	frame := rewritetest.Frame{Address: addr, Type: "kernel", Lines: lines}
	if profiler {
		frame.Address--
	}
	if !relative {
		return frame
	}
	for _, m := range f.images {
		if m.contains(addr) {
			frame.Address -= m.base()
			frame.Mapping = &rewritetest.Mapping{
				File: m.Name(), BuildID: m.BuildID(), FileID: buildid.FileID(m.BuildID()), Limit: 1 << 30,
			}
			if profiler {
				frame.Mapping.Limit = 0
			}
		}
	}
	return frame
}

// lines returns the lines that the frame of an address comes with.
func (f *fleet) lines(addr uint64) []rewritetest.Line {
	switch f.r.Intn(8) {
	case 0:
		return []rewritetest.Line{{Name: "somebody", System: "somebody"}}
	case 1:
		return []rewritetest.Line{{Name: "inner", Line: 1}, {Name: "outer", Line: 2}}
	case 2:
		for _, m := range f.images {
			if s := m.symbol(addr - 1); s != nil {
				return []rewritetest.Line{{Name: s.name, System: s.system}}
			}
		}
	}
	return nil
}

// messages returns one message in two forms; see frame.
func (f *fleet) messages() (absolute, relative pprofile.Profiles) {
	a, b := rewritetest.NewMessage(), rewritetest.NewMessage()
	lines := map[uint64][]rewritetest.Line{}
	for range 1 + f.r.Intn(3) {
		profiler, scope := f.r.Intn(2) == 0, "scope"
		if profiler {
			scope = profilerScope
		}
		a.Profile(nil, scope)
		b.Profile(map[string]any{"host.name": "other"}, scope)
		for range 1 + f.r.Intn(5) {
			var x, y []rewritetest.Frame
			for _, addr := range f.stack() {
				if _, ok := lines[addr]; !ok {
					lines[addr] = f.lines(addr)
				}
				x = append(x, f.frame(addr, profiler, false, lines[addr]))
				y = append(y, f.frame(addr, profiler, true, lines[addr]))
			}
			a.Sample(x...)
			b.Sample(y...)
		}
	}
	return a.Profiles, b.Profiles
}

// TestGatewaySameAsNode verifies that a gateway writes what the node's own kernelsym would have written
// (contract 10.2): for the same message, for one with the addresses of the node's memory, and for one that a
// kernelsym without packs has named.
func TestGatewaySameAsNode(t *testing.T) {
	for seed := range int64(rewritetest.Rounds(*gatewaySeeds)) {
		f := newFleet(t, seed)
		absolute, relative := f.messages()
		atGateway := f.opts
		atGateway.Gateway, atGateway.IsForeign = true, isOther

		got := f.rewrite(t, atGateway, relative, f.gateway)
		want := f.rewrite(t, f.opts, relative, f.node)
		require.True(t, bytes.Equal(marshalled(want.Profiles), marshalled(got.Profiles)), "seed %d: %s", seed,
			difference(want.Profiles, got.Profiles))
		require.Equal(t, want.Counts, got.Counts, "seed %d", seed)
		require.Equal(t, want.Packs, got.Packs, "seed %d", seed)
		require.Subset(t, got.BuildIDs, want.BuildIDs, "seed %d", seed) // and core kernels that decide for modules

		inMemory := f.rewrite(t, f.opts, absolute, f.node)
		compareFrames(t, seed, absolute, inMemory.Profiles, got.Profiles)

		if f.opts.All || f.opts.Label {
			continue // names that a node gives without packs are the same, but others are replaced
		}
		without := f.opts
		without.DebugInfo = false
		agent := f.rewrite(t, without, relative, f.node)
		named := f.rewrite(t, atGateway, agent.Profiles, f.gateway)
		compareFrames(t, seed, pprofile.NewProfiles(), want.Profiles, named.Profiles)
	}
}

// rewrite rewrites a copy of a message, and checks what must hold for every message.
func (f *fleet) rewrite(t *testing.T, opts rewrite.Options, pd pprofile.Profiles, known rewrite.Sources) rewrite.Result {
	result := rewrite.New(opts).Rewrite(copyOf(pd), known)
	require.NoError(t, rewritetest.CheckRewritten(pd, result.Profiles))
	again := rewrite.New(opts).Rewrite(copyOf(result.Profiles), known)
	require.True(t, bytes.Equal(marshalled(result.Profiles), marshalled(again.Profiles)), difference(result.Profiles, again.Profiles))
	return result
}

// compareFrames compares the frames of all samples. Of frames that came with a name, in a message with the same samples, only
// the lines are compared: where their addresses were absolute, these have changed.
func compareFrames(t *testing.T, seed int64, came, want, got pprofile.Profiles) {
	x, y, before := rewritetest.Samples(want), rewritetest.Samples(got), rewritetest.Samples(came)
	require.Len(t, y, len(x))
	for i := range x {
		require.Len(t, y[i].Stack, len(x[i].Stack))
		for k := range x[i].Stack {
			a, b := x[i].Stack[k], y[i].Stack[k]
			if before != nil && isNamed(before[i].Stack[k]) {
				a, b = rewritetest.Frame{Lines: a.Lines}, rewritetest.Frame{Lines: b.Lines}
			}
			if !reflect.DeepEqual(a, b) {
				require.Failf(t, "they differ", "seed %d sample %d frame %d:\n%s\n%s", seed, i, k, show(a), show(b))
			}
		}
	}
}
