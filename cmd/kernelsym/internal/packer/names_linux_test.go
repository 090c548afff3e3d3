// SPDX-License-Identifier: Apache-2.0

package packer_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// loadAllModules loads every module that the virtual machine can use.
func loadAllModules(t *testing.T) {
	t.Helper()
	loaded := 0
	for _, name := range kerneltest.ModuleNames(t) {
		if kerneltest.LoadModule(name) == nil { // many need hardware
			loaded++
		}
	}
	require.Greater(t, loaded, 100)
}

// TestPackNames compares the symbols in packs, of the kernel's files and of the running kernel,
// with the symbols of that kernel: names, aliases and ends (contract 3.1 to 3.3).
func TestPackNames(t *testing.T) {
	kerneltest.NeedVM(t)
	packs := kerneltest.Packs(t)
	loadAllModules(t)
	dir := t.TempDir()
	_, err := packer.Running(t.Context(), "/proc", "/sys", packer.Options{Dir: dir})
	require.NoError(t, err)
	running := kerneltest.PacksIn(t, dir)
	snapshot := withoutBPF(t)
	images, symbols, different, differentRunning := 0, 0, 0, 0
	for _, table := range snapshot.Tables() {
		for _, m := range table.Loaded() {
			if m.IsFunction() || m.BuildID() == "" {
				continue
			}
			p := packs[m.BuildID()]
			_, err := os.Stat("/sys/module/" + m.Name() + "/sections/.text")
			if p == nil && err != nil && m.Origin == timeline.OriginModule && runtime.GOARCH == "arm64" {
				continue // it has a .plt, whose length is not in its file, and perhaps code after that
			}
			if !assert.NotNil(t, p, "no pack of %s", m.Name()) {
				continue
			}
			assert.Equal(t, m.Name(), p.Info().Name)
			images++
			symbols += m.Len()
			different += differences(t, m, p)
			if m.Len() > 0 && assert.NotNil(t, running[m.BuildID()], "no running pack of %s", m.Name()) {
				differentRunning += differences(t, m, running[m.BuildID()])
			}
		}
	}
	kerneltest.Figure("pack_name_differences %d of %d symbols of %d images", different, symbols, images)
	kerneltest.Figure("pack_running_name_differences %d", differentRunning)
	assert.Zero(t, different+differentRunning)
	assert.Greater(t, images, 100)
}

// differences returns the number of symbols that differ between an image and its pack, and names
// the first few.
func differences(t *testing.T, m *timeline.Image, p *pack.Pack) (n int) {
	t.Helper()
	type symbol struct {
		start, end uint64 // from the base
		name       string
		folded     bool
	}
	var running, packed []symbol
	for i := range m.Len() {
		s := m.Text.Symbol(i)
		name := m.Text.Name(s)
		running = append(running, symbol{s.Start - m.Base(), s.End() - m.Base(), name.System, name.Folded})
	}
	for s := range p.Symbols() {
		base := uint64(p.Info().Base)
		packed = append(packed, symbol{uint64(s.Range.Start) - base, uint64(s.Range.End) - base, s.Name, s.Folded})
	}
	if i, j := len(running)-1, len(packed)-1; runtime.GOARCH == "arm64" && i >= 0 && j >= 0 &&
		running[i].start == packed[j].start && packed[j].end == uint64(p.Info().Extent.End-p.Info().Base) {
		// If .plt is before the code, the file does not show how much of the last page is left.
		running[i].end = min(running[i].end, packed[j].end)
	}
	missing := func(from, in []symbol, where string) {
		has := make(map[symbol]bool, len(in))
		for _, s := range in {
			has[s] = true
		}
		for _, s := range from {
			if has[s] {
				continue
			}
			if n++; n <= 6 {
				t.Logf("%s: %+v is not in the %s", m.Name(), s, where)
			}
		}
	}
	missing(running, packed, "pack")
	missing(packed, running, "kernel")
	return n
}
