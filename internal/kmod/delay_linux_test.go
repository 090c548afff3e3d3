// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// times are durations that were measured.
type times []time.Duration

func (d times) median() time.Duration {
	slices.Sort(d)
	return d[len(d)/2].Round(time.Millisecond)
}

func (d times) maximum() time.Duration { return slices.Max(d).Round(time.Millisecond) }

// timeToRead returns how long it takes to read /proc/kallsyms without parsing it: all of it, or only
// up to the first symbol of a module.
func timeToRead(t *testing.T, onlyCore bool) time.Duration {
	t.Helper()
	f, err := os.Open("/proc/kallsyms")
	require.NoError(t, err)
	defer f.Close()
	buf := make([]byte, 1<<16)
	start := time.Now()
	for {
		n, err := f.Read(buf)
		if errors.Is(err, io.EOF) || onlyCore && bytes.Contains(buf[:n], []byte("]\n")) {
			return time.Since(start)
		}
		require.NoError(t, err)
	}
}

// TestDelay loads and unloads a module several times. It prints how long it took until the module
// was known, and how long it would take at best: each time, the kernel lists all of its own symbols
// before any symbols of modules.
func TestDelay(t *testing.T) {
	kerneltest.NeedModules(t)
	const name, settle, cycles = "veth", 50 * time.Millisecond, 4
	loadMany(t)
	_ = kerneltest.UnloadModule(name)
	f := followRunning(t, settle)
	f.until(t, "the first table", func(t *timeline.Table) bool { return len(t.Loaded()) > 50 })
	f.until(t, "its symbols", func(t *timeline.Table) bool { return t.Loaded()[0].Len() > 0 })

	var core, whole, metadata, names, gone times
	for i := range cycles {
		if i%2 == 0 {
			core = append(core, timeToRead(t, true))
			whole = append(whole, timeToRead(t, false))
		}
		require.NoError(t, kerneltest.LoadModule(name))
		start := time.Now()
		f.until(t, "metadata", func(t *timeline.Table) bool { return find(t, name) != nil })
		metadata = append(metadata, time.Since(start))
		f.until(t, "names", func(t *timeline.Table) bool { return find(t, name).Len() > 0 })
		names = append(names, time.Since(start))
		require.NoError(t, kerneltest.UnloadModule(name))
		gone = append(gone, f.until(t, "removal", func(t *timeline.Table) bool { return find(t, name) == nil }))
	}
	slowness := kerneltest.Slowness(t)
	kerneltest.Figure("kallsyms_read: core part median %s, maximum %s; all of it median %s",
		core.median(), core.maximum(), whole.median())
	kerneltest.Figure("module_metadata_delay: median %s, maximum %s; "+
		"goal %s, as files are read %.0f times slower than outside",
		metadata.median(), metadata.maximum(),
		(settle + time.Duration(slowness*float64(20*time.Millisecond))).Round(time.Millisecond), slowness)
	goal := func(core time.Duration) time.Duration { return settle + core*11/10 }
	kerneltest.Figure("module_names_delay: median %s, maximum %s; "+
		"goal %s with the median core part, %s with the maximum",
		names.median(), names.maximum(), goal(core.median()), goal(core.maximum()))
	kerneltest.Figure("module_removal_delay: median %s, maximum %s", gone.median(), gone.maximum())
}
