// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packs"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

var build = strings.Repeat("ab", 20)

// packOf returns the pack of a build with one function, into which another is inlined.
func packOf(t *testing.T, name, buildID string) []byte {
	t.Helper()
	extent := pack.Range{End: 0x100}
	w := pack.NewWriter(pack.Info{BuildID: buildID, Name: pack.KernelName, Arch: "amd64", Extent: extent})
	file := w.File("mm/slub.c")
	outer := w.Node(0, w.Function(name, file, 10), 0, 0)
	inner := w.Node(outer, w.Function("likely", w.File("include/likely.h"), 1), file, 12)
	w.Row(0, inner, w.File("include/likely.h"), 2)
	w.Row(extent.End, 0, 0, 0)
	w.Symbol(pack.Symbol{Range: extent, Name: name})
	b, err := w.Bytes()
	require.NoError(t, err)
	return b
}

// withPacks returns an OpenSources for a processor that knows a kernel, or none if kernel is nil, and the
// packs of a directory.
func withPacks(dir string, kernel *timeline.Table) OpenSources {
	return func(component.Host) (Sources, func(), error) {
		store := packs.New(packs.Options{Directory: dir, MaxBytes: 1 << 20, Gateway: kernel == nil})
		sources := []symcache.Source{store}
		if kernel != nil {
			sources = append(sources, still{kernel})
		}
		known := Sources{symcache.Start(zap.NewNop(), nil, sources...), store}
		return known, known.Stop, nil
	}
}

// startWithPacks starts a processor that uses packs.
func startWithPacks(t *testing.T, h component.Host, opts rewrite.Options, acquire OpenSources) *Processor {
	t.Helper()
	opts.DebugInfo, opts.Inline = true, true
	c, err := NewShared(component.MustNewID("kernelsym"), componenttest.NewNopTelemetrySettings(), opts, acquire)
	require.NoError(t, err)
	p := c.NewProcessor()
	require.NoError(t, p.Start(t.Context(), h))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p
}

// linesOf returns the lines that a frame has after processing.
func linesOf(t *testing.T, p *Processor, f rewritetest.Frame) []rewritetest.Line {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f)
	pd, err := p.ProcessProfiles(t.Context(), m.Profiles)
	require.NoError(t, err)
	require.NoError(t, rewritetest.CheckValid(pd))
	return rewritetest.Samples(pd)[0].Stack[0].Lines
}

func ownDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "packs")
	require.NoError(t, os.Mkdir(dir, 0o755))
	return dir
}

var inlined = []rewritetest.Line{
	{Name: "likely", System: "likely", File: "include/likely.h", Line: 2},
	{Name: "f", System: "f", File: "mm/slub.c", Line: 12},
}

// TestPacksOfANode uses a pack from the second message on: the first one does not wait for it.
func TestPacksOfANode(t *testing.T) {
	dir := ownDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, build+pack.Ext), packOf(t, "f", build), 0o644))
	synctest.Test(t, func(t *testing.T) {
		p := startWithPacks(t, newHost(), rewrite.Options{}, withPacks(dir, timeline.NewTable(core(t, "f", build))))
		frame := rewritetest.Frame{Address: text + 0x10, Type: "kernel"}
		assert.Equal(t, []rewritetest.Line{{Name: "f", System: "f"}}, linesOf(t, p, frame), "not looked for yet")
		synctest.Wait()
		assert.Equal(t, inlined, linesOf(t, p, frame))
	})
}

// TestContract_10_2_Gateway names a frame of another machine, by its build id and by its
// file ID.
func TestContract_10_2_Gateway(t *testing.T) {
	for _, ids := range []rewritetest.Mapping{
		{File: "vmlinux", BuildID: build},
		{File: "vmlinux", FileID: timeline.NewTable(core(t, "f", build)).Loaded()[0].Text.FileID},
	} {
		dir := ownDir(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, build+pack.Ext), packOf(t, "f", build), 0o644))
		synctest.Test(t, func(t *testing.T) {
			p := startWithPacks(t, newHost(), rewrite.Options{Gateway: true}, withPacks(dir, nil))
			frame := rewritetest.Frame{Address: 0x10, Type: "kernel", Mapping: &ids}
			assert.Empty(t, linesOf(t, p, frame), "not looked for yet")
			synctest.Wait()
			assert.Equal(t, inlined, linesOf(t, p, frame))
		})
	}
}

// TestBadPack has a damaged pack: the status says so, frames keep their names, and a good pack that follows
// is used.
func TestBadPack(t *testing.T) {
	dir := ownDir(t)
	file := filepath.Join(dir, build+pack.Ext)
	whole := packOf(t, "f", build)
	require.NoError(t, os.WriteFile(file, whole[:len(whole)-1], 0o644))
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		p := startWithPacks(t, h, rewrite.Options{}, withPacks(dir, timeline.NewTable(core(t, "f", build))))
		frame := rewritetest.Frame{Address: text + 0x10, Type: "kernel"}
		linesOf(t, p, frame)
		synctest.Wait()
		last := h.events[len(h.events)-1]
		assert.Equal(t, componentstatus.StatusRecoverableError, last.Status())
		require.ErrorContains(t, last.Err(), "packs is degraded: "+file+": damaged pack")
		assert.Equal(t, []rewritetest.Line{{Name: "f", System: "f"}}, linesOf(t, p, frame))

		require.NoError(t, os.WriteFile(file, whole, 0o644))
		time.Sleep(time.Minute)
		linesOf(t, p, frame)
		synctest.Wait()
		assert.Equal(t, componentstatus.StatusOK, h.events[len(h.events)-1].Status())
		assert.Equal(t, inlined, linesOf(t, p, frame))
	})
}

// TestStartFails has the sources fail to open.
func TestStartFails(t *testing.T) {
	p := newProcessor(t, func(component.Host) (Sources, func(), error) {
		return Sources{}, nil, errors.New("no such extension")
	})
	require.EqualError(t, p.Start(t.Context(), newHost()), "no such extension")
	require.NoError(t, p.Shutdown(t.Context()))
}
