// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var everything = Options{
	Procfs: "/proc", Sysfs: "/sys", SourceLines: true, PublishChanges: true, Trampolines: true,
	History: timeline.Limits{TTL: time.Minute, MaxEntries: 1 << 16},
}

// newSource returns a source with enough time and memory to read everything, even while other tests load
// thousands of programs and this process gets no CPU for seconds.
func newSource(opts Options) *Source {
	s := NewSource(opts)
	s.kallsyms.budget = time.Minute
	s.open = func() (EventSource, error) {
		perf := perfring.SymbolOptions(opts.Sysfs)
		perf.BytesPerCPU = 4 << 20
		return perfring.Open(perf)
	}
	return s
}

// published is the table that a source published last, and the error that says what it lacks.
type published struct {
	table           *timeline.Table
	degraded        error
	symcache.Counts // so far
}

// run starts a source and returns a function that returns the last update. The source must end without an
// error when the test ends.
func run(t *testing.T, s *Source) (latest func() published) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	first := make(chan struct{})
	var last atomic.Pointer[published]
	go func() {
		done <- s.Run(ctx, func(u symcache.Update) {
			p := &published{u.Table, u.Degraded, u.Changes.Counts}
			if was := last.Load(); was != nil {
				p.LostRecords += was.LostRecords
				p.Resyncs += was.Resyncs
			}
			if last.Swap(p) == nil {
				close(first)
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	select {
	case <-first:
	case err := <-done:
		done <- nil
		t.Fatal("the source ended without a table: ", err)
	}
	return func() published { return *last.Load() }
}

// eventually waits until the published table satisfies wanted.
func eventually(t *testing.T, latest func() published, what string, wanted func(*timeline.Table) bool) *timeline.Table {
	t.Helper()
	var table *timeline.Table
	for began := time.Now(); time.Since(began) < 5*time.Minute; time.Sleep(time.Millisecond) {
		if table = latest().table; wanted(table) {
			return table
		}
	}
	functions := table.Loaded()
	t.Logf("%d functions are published (%v):", len(functions), latest().degraded)
	for _, f := range functions[max(0, len(functions)-20):] {
		t.Logf("%#x %#x %v %s %+v", f.Start, f.End, f.Origin, f.Name(), f.Program)
	}
	t.Fatal("never: ", what)
	return nil
}

// differences compares the published table with the kernel's list. Other tests can load programs at the same
// time, so only entries count that exist before and after. That does not happen in virtual machines, where
// reading the list takes a second.
func differences(t *testing.T, latest func() published, withOthers bool) (diff []string) {
	t.Helper()
	before, first := listed(t), functionsAt(latest().table)
	second, after := functionsAt(latest().table), before
	if !kerneltest.InVM() {
		after = listed(t)
	}
	table := latest().table
	for addr, names := range after {
		if !slices.Equal(before[addr], names) {
			continue
		}
		hit, _ := timeline.NewSnapshot(table).At(addr, timeline.Present)
		if hit.Image != nil && hit.Image.Name() == "" || !withOthers && timeline.TagOf(names[0]) == "" {
			continue // the kernel may have no name for it, or the source wants none
		}
		sym, ok := hit.Symbol, hit.Symbol.Exists()
		if !ok || sym.Start != addr || !slices.Contains(names, hit.Name().Name) {
			diff = append(diff, fmt.Sprintf("%#x is %s, not %+v", addr, names, hit))
		}
	}
	for addr, name := range first {
		if second[addr] == name && before[addr] == nil && after[addr] == nil {
			diff = append(diff, fmt.Sprintf("%#x is no %s", addr, name))
		}
	}
	return diff
}

// listed returns the names in the kernel's list, by address. Linux 5.10 has two names for the main function
// of a program with several functions: one with the program's tag and one with the function's.
func listed(t *testing.T) map[uint64][]string {
	t.Helper()
	names := map[uint64][]string{}
	for _, s := range kerneltest.ReadParts(t) {
		names[s.Addr] = append(names[s.Addr], s.Name)
	}
	return names
}

func functionsAt(table *timeline.Table) map[uint64]string {
	names := map[uint64]string{}
	for _, f := range table.Loaded() {
		names[f.Start] = f.Name()
	}
	return names
}

// agree waits until the published table equals the kernel's list.
func agree(t *testing.T, latest func() published) {
	t.Helper()
	agreeOn(t, latest, true)
}

// agreeOn does the same, with or without trampolines and pages.
func agreeOn(t *testing.T, latest func() published, withOthers bool) {
	t.Helper()
	var diff []string
	for began := time.Now(); time.Since(began) < 5*time.Minute; {
		if diff = differences(t, latest, withOthers); len(diff) == 0 {
			return
		}
	}
	require.Empty(t, diff)
}
