// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// A load is one load of a module.
type load struct {
	module   string
	base     uint64 // 0 until it is known
	unloaded bool
	tables   int // published since it was unloaded
}

// A ledger has all loads that a test made. At any time, it lists the loads whose code can be named.
// They can be named from when the kernel is asked to load the module until two tables were
// published after the kernel had unloaded it. For the first of these tables, the list of modules
// may have been read while the module was loaded; for the second, it was read after the first was
// published. The source may not have been notified in between. The frames of a profile belong to a
// moment before it passes.
type ledger struct {
	files map[string]*kerneltest.ModuleCode // by module; only the test's own goroutine writes

	mu              sync.Mutex
	loads           []*load
	addresses       []uint64 // in code of the modules, wherever they were loaded
	named, nameless int
	failed          bool
}

// load loads a module.
func (l *ledger) load(t *testing.T, module string) *load {
	t.Helper()
	if l.files[module] == nil {
		file := kerneltest.ReadModuleCode(t, module)
		l.mu.Lock()
		l.files[module] = file
		l.mu.Unlock()
	}
	ld := &load{module: module}
	l.mu.Lock()
	l.loads = append(l.loads, ld)
	l.mu.Unlock()
	require.NoError(t, kerneltest.LoadModule(module))
	base := textOf(t, module)
	l.mu.Lock()
	defer l.mu.Unlock()
	ld.base = base
	for _, f := range l.files[module].Functions[:3] {
		if addr := base + (f.Start+f.End)/2; !slices.Contains(l.addresses, addr) {
			l.addresses = append(l.addresses, addr)
		}
	}
	return ld
}

// unload unloads the module of a load.
func (l *ledger) unload(t *testing.T, ld *load) {
	t.Helper()
	require.NoError(t, kerneltest.UnloadModule(ld.module))
	l.mu.Lock()
	defer l.mu.Unlock()
	ld.unloaded = true
}

// published records that there is a new table.
func (l *ledger) published() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ld := range l.loads {
		if ld.unloaded {
			ld.tables++
		}
	}
}

// now returns the addresses to look up, and a function that reports whether code can be named as
// part of a load between the two calls.
func (l *ledger) now() (addresses []uint64, could func(*load) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := make(map[*load]bool)
	for _, ld := range l.loads {
		gone[ld] = ld.tables >= 2
	}
	return slices.Clone(l.addresses), func(ld *load) bool { return !gone[ld] }
}

// bases returns the addresses at which modules were loaded.
func (l *ledger) bases() (all []uint64) {
	for _, ld := range l.loads {
		all = append(all, ld.base)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// judge checks a frame that came out in a module against the loads that it can belong to.
func (l *ledger) judge(t *testing.T, f frame, could func(*load) bool) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	file := l.files[f.Mapping.File]
	if file == nil || l.failed {
		return // another module, which is always loaded; or a failure was already reported
	}
	if len(f.Lines) == 0 {
		l.nameless++
	} else {
		l.named++
	}
	right := func(ld *load) bool {
		return ld.module == f.Mapping.File && could(ld) &&
			(ld.base == 0 || len(f.Lines) == 0 || file.Has(f.Lines[0].System, f.Address-ld.base))
	}
	if l.failed = f.Mapping.BuildID != file.BuildID || !slices.ContainsFunc(l.loads, right); l.failed {
		t.Errorf("%#x became %+v, %+v", f.Address, f.Lines, *f.Mapping)
		for _, ld := range l.loads[max(0, len(l.loads)-20):] {
			t.Logf("%+v", *ld)
		}
	}
}
