// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// runningCore returns the core kernel as kallsyms describes it.
func runningCore(t *testing.T) *timeline.Image {
	t.Helper()
	kerneltest.NeedAddresses(t)
	id, err := buildid.OfKernel("/sys")
	require.NoError(t, err)
	list, err := os.ReadFile("/proc/kallsyms")
	require.NoError(t, err)
	core, err := kallsyms.ParseCore(bytes.NewReader(list), runtime.GOARCH, id, buildid.FileID(id))
	require.NoError(t, err)
	return core
}

// packOf returns the pack that kernelsym pack --running would make of a core kernel.
func packOf(t *testing.T, core *timeline.Image) *pack.Pack {
	t.Helper()
	at := func(r symtab.Range) pack.Range {
		if r == (symtab.Range{}) {
			return pack.Range{}
		}
		return pack.Range{Start: uint32(r.Start - core.Start), End: uint32(r.End - core.Start)}
	}
	w := pack.NewWriter(pack.Info{
		BuildID: core.BuildID(), Name: pack.KernelName, Arch: runtime.GOARCH,
		Extent: at(symtab.Range{Start: core.Start, End: core.End}), Gap: at(core.Text.Gap),
		Marks: pack.Marks{Entry: at(core.Text.Landmarks.Entry), Fred: at(core.Text.Landmarks.Fred)},
	})
	for i := range core.Len() {
		s := core.Text.Symbol(i)
		name := core.Text.Name(s)
		w.Symbol(pack.Symbol{Range: at(symtab.Range{Start: s.Start, End: s.End()}), Name: name.System, Folded: name.Folded})
	}
	content, err := w.Bytes()
	require.NoError(t, err)
	p, err := pack.Read(bytes.NewReader(content), int64(len(content)))
	require.NoError(t, err)
	return p
}

// fakePacks has one pack, or says why there is none.
type fakePacks struct {
	pack *pack.Pack
	err  error
}

func (p fakePacks) Pack(context.Context, string) (*pack.Pack, error) { return p.pack, p.err }

// TestContract_10_5_RunningKernelIsLocated compares the place with the list of the running kernel.
func TestContract_10_5_RunningKernelIsLocated(t *testing.T) {
	core := runningCore(t)
	kerneltest.NeedPerf(t)
	if !kerneltest.Has(t, capability.CAP_SYS_ADMIN) {
		t.Skip("no CAP_SYS_ADMIN (not root?): /proc/PID/stack cannot be read, so the place is not compared")
	}
	p := packOf(t, core)
	waits, err := observe(t.Context(), "/proc")
	require.NoError(t, err)
	require.NotEmpty(t, waits)
	for i, w := range waits {
		t.Logf("wait %d: wchan %q, %d addresses, %d frames", i, w.Wchan, len(w.Addresses), len(w.Frames))
		for _, f := range w.Frames {
			t.Logf("\t%s+%#x/%#x", f.Function, f.Offset, f.Length)
		}
	}
	place, err := Place(p, waits)
	require.NoError(t, err)
	assert.Equal(t, core.Base(), place, "the place is that of the list")
	place, err = Place(p, withStack(waits...))
	require.NoError(t, err)
	assert.Equal(t, core.Base(), place, "by stack alone")
	place, err = Place(p, withWchan(waits...))
	if runtime.GOARCH == "amd64" && kerneltest.OlderThan(t, 5, 16) {
		require.ErrorIs(t, err, ErrSilent)
		return
	}
	require.NoError(t, err)
	assert.Equal(t, core.Base(), place, "by wchan alone")
}

// TestLocator verifies that the running kernel is located as a whole, that the process knows it then, and why it is not
// located where something is missing.
func TestLocator(t *testing.T) {
	kerneltest.NeedPerf(t)
	core := runningCore(t)
	p := packOf(t, core)
	got, err := NewLocator("/proc", fakePacks{pack: p}).Locate(t.Context(), core.BuildID())
	require.NoError(t, err)
	assert.True(t, got.IsLocated)
	assert.Same(t, got, Core())
	require.Equal(t, core.Len(), got.Len())
	different := 0
	for i := range core.Len() {
		want, have := core.Text.Symbol(i), got.Text.Symbol(i)
		if want != have || core.Text.Name(want).System != got.Text.Name(have).System {
			different++
		}
	}
	assert.Zero(t, different, "symbols")

	none := errors.New("no pack")
	other := newKernel(t, map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH], 0).Pack
	for _, tt := range []struct {
		name, procfs, buildID string
		packs                 fakePacks
		want                  error
	}{
		{"no build id", "/proc", "", fakePacks{pack: p}, ErrNoBuildID},
		{"no pack", "/proc", core.BuildID(), fakePacks{err: none}, none},
		{"another architecture", "/proc", core.BuildID(), fakePacks{pack: other}, ErrOtherArch},
		{"the files are missing", t.TempDir(), core.BuildID(), fakePacks{pack: p}, ErrSilent},
	} {
		_, err := NewLocator(tt.procfs, tt.packs).Locate(t.Context(), tt.buildID)
		require.ErrorIs(t, err, tt.want, tt.name)
	}
	assert.Same(t, got, Core())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = NewLocator("/proc", fakePacks{pack: p}).Locate(ended, core.BuildID())
	require.ErrorIs(t, err, context.Canceled)
}

// TestContract_10_5_WithoutPerfNothingIsLocated verifies that the error of a user without rights says what to grant.
func TestContract_10_5_WithoutPerfNothingIsLocated(t *testing.T) {
	kerneltest.NeedRestrictedPerf(t)
	p := newKernel(t, runtime.GOARCH, 0).Pack
	kerneltest.Unprivileged(t, func(t *testing.T) {
		_, err := NewLocator("/proc", fakePacks{pack: p}).Locate(t.Context(), p.Info().BuildID)
		require.ErrorIs(t, err, perfring.ErrPermission)
	})
}
