package kmod

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestDelay loads and unloads a module again and again, and prints how long it
// took until it was known.
func TestDelay(t *testing.T) {
	kerneltest.NeedModules(t)
	const name, settle, cycles = "veth", 50 * time.Millisecond, 20
	loadMany(t, 100)
	_ = kerneltest.UnloadModule(name)
	f := followRunning(t, settle)
	f.until(t, "the first table", func(t *symtab.Table) bool { return len(t.Modules()) > 50 })
	f.until(t, "its symbols", func(t *symtab.Table) bool { return t.Modules()[0].Len() > 0 })
	start := time.Now()
	_ = moduleLines(t)
	whole := time.Since(start)

	var metadata, names, gone []time.Duration
	for range cycles {
		require.NoError(t, kerneltest.LoadModule(name))
		start := time.Now()
		f.until(t, "metadata", func(t *symtab.Table) bool { return find(t, name) != nil })
		metadata = append(metadata, time.Since(start))
		f.until(t, "names", func(t *symtab.Table) bool { return find(t, name).Len() > 0 })
		names = append(names, time.Since(start))
		require.NoError(t, kerneltest.UnloadModule(name))
		gone = append(gone, f.until(t, "removal", func(t *symtab.Table) bool { return find(t, name) == nil }))
	}
	for what, times := range map[string][]time.Duration{"metadata": metadata, "names": names, "removal": gone} {
		slices.Sort(times)
		t.Logf("%s: median %s, maximum %s", what, times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
	}
	t.Logf("settle %s; reading all of kallsyms, and scanning it: %s", settle, whole.Round(time.Millisecond))
}
