// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// packTheCore writes a pack of the running core kernel to a directory. The symbols are real, but
// the lines are made up: the second half of each function is inlined into it.
func packTheCore(t *testing.T, dir string) *pack.Pack {
	t.Helper()
	snapshot, err := symcache.Load(t.Context(), kallsyms.NewSource("/proc", "/sys", nil))
	require.NoError(t, err)
	core := snapshot.Core()
	at := func(r symtab.Range) pack.Range {
		if r == (symtab.Range{}) {
			return pack.Range{}
		}
		return pack.Range{Start: uint32(r.Start - core.Base()), End: uint32(r.End - core.Base())}
	}
	info := pack.Info{
		BuildID: core.BuildID(), Name: pack.KernelName, Arch: runtime.GOARCH,
		Extent: at(symtab.Range{Start: core.Start, End: core.End}), Gap: at(core.Text.Gap),
		Marks: pack.Marks{Entry: at(core.Text.Landmarks.Entry), Fred: at(core.Text.Landmarks.Fred)},
	}
	for _, thunk := range core.Text.Landmarks.Thunks {
		info.Marks.Thunks = append(info.Marks.Thunks, at(thunk))
	}
	w := pack.NewWriter(info)
	type row struct {
		addr uint32
		node pack.Node
		line uint32
	}
	var rows []row
	file, header := w.File("kernel/made_up.c"), w.File("include/made_up.h")
	inline := w.Function("made_up", header, 1)
	for i := range core.Len() {
		s := core.Text.Symbol(i)
		r := at(symtab.Range{Start: s.Start, End: s.End()})
		line := uint32(i)*10 + 1
		outer := w.Node(0, w.Function(core.Text.Name(s).System, file, line), 0, 0)
		inner := w.Node(outer, inline, file, line+2)
		rows = append(rows, row{r.Start, outer, line + 1})
		if middle := r.Start + (r.End-r.Start)/2; middle > r.Start {
			rows = append(rows, row{middle, inner, line + 3})
		}
	}
	for _, r := range rows {
		w.Row(r.addr, r.node, file, r.line)
	}
	w.Row(info.Extent.End, 0, 0, 0)
	for i := range core.Len() {
		s := core.Text.Symbol(i)
		w.Symbol(pack.Symbol{Range: at(symtab.Range{Start: s.Start, End: s.End()}), Name: core.Text.Name(s).System, Folded: core.Text.Name(s).Folded})
	}
	content, err := w.Bytes()
	require.NoError(t, err)
	name := filepath.Join(dir, core.BuildID()+pack.Ext)
	require.NoError(t, os.WriteFile(name, content, 0o644))
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	p, err := pack.Read(f, int64(len(content)))
	require.NoError(t, err)
	return p
}

const nodeWithAndWithoutPacks = `
receivers: {kernelstack: {frequency: %[3]s, interval: 500ms}}
processors: {kernelsym: {debug_info: {directory: %[1]s}}, kernelsym/plain: }
exporters: {file: {path: %[2]s/node.json, flush_interval: 50ms}, file/plain: {path: %[2]s/plain.json, flush_interval: 50ms}}
service:
  pipelines:
    profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [file]}
    profiles/plain: {receivers: [kernelstack], processors: [kernelsym/plain], exporters: [file/plain]}
`

const gatewayWithPacks = `
receivers: {otlp: {protocols: {grpc: {endpoint: "%[3]s"}}}}
processors: {kernelsym: {local: false, debug_info: {directory: %[1]s, max_bytes: 512MiB}}}
exporters: {file: {path: %[2]s/gateway.json, flush_interval: 50ms}}
service: {pipelines: {profiles: {receivers: [otlp], processors: [kernelsym], exporters: [file]}}}
`

// TestContract_10_PacksOnNodeAndGateway samples this machine's kernel. It verifies that on the
// node, frames of the core kernel have the lines of its pack, and that a gateway gives the same
// profiles the same lines, whether they arrive with names or without.
func TestContract_10_PacksOnNodeAndGateway(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	kernelBuildID(t)
	packs, dir := filepath.Join(t.TempDir(), "packs"), t.TempDir()
	require.NoError(t, os.Mkdir(packs, 0o755))
	p := packTheCore(t, packs)
	var node, plain pprofile.Profiles
	// The rest needs the CPUs for itself.
	if !t.Run("sample", func(t *testing.T) { node, plain = sampleWithPacks(t, packs, dir) }) {
		return
	}
	checkLines(t, p, node)
	t.Logf("%d frames of the core kernel", len(coreFrames(node)))
	if kerneltest.InVM() {
		return // a gateway does not depend on the kernel of its machine
	}

	endpoint := freeAddress(t)
	g := startCollector(t, fmt.Sprintf(gatewayWithPacks, packs, dir, endpoint))
	send, sent := overGRPC(endpoint), 0
	for name, in := range map[string]pprofile.Profiles{"without names": nameless(node), "without lines": plain} {
		var out pprofile.Profiles
		g.eventually(name, func() error {
			pd := pprofile.NewProfiles()
			in.CopyTo(pd)
			require.NoError(t, send(t, pd))
			out = nthMessage(g, dir+"/gateway.json", sent)
			sent++
			if n, _ := lined(out); n == 0 {
				return errors.New("the pack is not open yet")
			}
			return nil
		})
		assert.Equal(t, coreFrames(node), coreFrames(out), name)
	}
	assert.NotContains(t, g.Log(), "kallsyms", "a gateway reads nothing of the kernel")
}

// sampleWithPacks samples the busy kernel on a node, and returns one message as it is with packs
// and without.
func sampleWithPacks(t *testing.T, packs, dir string) (node, plain pprofile.Profiles) {
	t.Helper()
	kerneltest.Busy(t)
	c := startCollector(t, fmt.Sprintf(nodeWithAndWithoutPacks, packs, dir, hertz()))
	seen := 0
	c.eventually("lines", func() error {
		with, without := c.exported(dir+"/node.json"), c.exported(dir+"/plain.json")
		for ; seen < min(len(with), len(without)); seen++ {
			node, plain = with[seen], without[seen]
			n, named := lined(node)
			_, plainNamed := lined(plain) // its processor may have been ready later
			if n > 100 && n == named && n == plainNamed {
				return nil
			}
		}
		return errors.New("no lines yet")
	})
	c.stop()
	return node, plain
}

// coreFrames returns the frames of the core kernel, in the order of samples and stacks.
func coreFrames(pd pprofile.Profiles) (frames []frame) {
	for _, s := range rewritetest.Samples(pd) {
		for _, f := range s.Stack {
			if f.Mapping != nil && f.Mapping.File == timeline.KernelName {
				frames = append(frames, f)
			}
		}
	}
	return frames
}

// lined returns how many frames of the core kernel have line numbers, and how many have names.
func lined(pd pprofile.Profiles) (n, named int) {
	for _, f := range coreFrames(pd) {
		if last := len(f.Lines) - 1; last >= 0 {
			named++
			if f.Lines[last].Line > 0 {
				n++
			}
		}
	}
	return n, named
}

// checkLines verifies that frames have the pack's lines for their addresses, and that some have
// inlined functions.
func checkLines(t *testing.T, p *pack.Pack, pd pprofile.Profiles) {
	t.Helper()
	inlined := 0
	for _, f := range coreFrames(pd) {
		if len(f.Lines) == 0 {
			continue // padding
		}
		var want []rewritetest.Line
		for _, in := range p.Find(uint32(f.Address), nil) {
			want = append(want, rewritetest.Line{Name: in.Function, System: in.Function, File: in.File, Line: int64(in.Line)})
		}
		require.NotEmpty(t, want)
		for i := range want {
			want[i].Name = f.Lines[min(i, len(f.Lines)-1)].Name // some are demangled
		}
		require.Equal(t, want, f.Lines, "%x", f.Address)
		inlined += len(want) - 1
	}
	assert.Positive(t, inlined)
}

// nameless returns a copy of a message without names.
func nameless(pd pprofile.Profiles) pprofile.Profiles {
	without := pprofile.NewProfiles()
	pd.CopyTo(without)
	for _, l := range without.Dictionary().LocationTable().All() {
		l.Lines().RemoveIf(func(pprofile.Line) bool { return true })
	}
	return without
}
