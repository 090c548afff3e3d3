// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/pack"
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

// packsOf has one pack.
type packsOf struct{ pack *pack.Pack }

func (p packsOf) Pack(context.Context, string) (*pack.Pack, error) { return p.pack, nil }

// TestContract_10_5_RunningKernelIsLocated compares the place with the list of the running kernel.
func TestContract_10_5_RunningKernelIsLocated(t *testing.T) {
	core := runningCore(t)
	kerneltest.NeedPerf(t)
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
	assert.True(t, place == core.Base(), "the place is that of the list")
	for _, without := range []string{"wchan", "stack"} {
		place, err := Place(p, silenced(waits, without))
		require.NoError(t, err, "without %s", without)
		assert.True(t, place == core.Base(), "without %s", without)
	}
}
