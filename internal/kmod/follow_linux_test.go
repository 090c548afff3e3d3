// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// loadMany loads modules until a hundred are loaded.
func loadMany(t *testing.T) {
	t.Helper()
	const many = 100
	count := func() int {
		list, err := os.ReadFile("/proc/modules")
		require.NoError(t, err)
		return strings.Count(string(list), "\n")
	}
	for _, name := range kerneltest.ModuleNames(t) {
		dir := kerneltest.FindModule(t, name).File
		isOfKind := func(kind string) bool { return strings.Contains(dir, kind) }
		if !slices.ContainsFunc([]string{"/net/", "/crypto/", "/fs/", "/lib/"}, isOfKind) {
			continue // the others need devices
		}
		_ = kerneltest.LoadModule(name) // some are for other CPUs
		if count() >= many {
			return
		}
	}
	t.Fatalf("%d modules can be loaded", count())
}

// runningTable returns a table of the running kernel's modules.
func runningTable(t *testing.T) *timeline.Table {
	t.Helper()
	s := NewSource("/proc", "/sys", 0, timeline.Limits{})
	f := newStepper(t, s)
	f.scan()
	require.NoError(t, s.state.tracker.degraded())
	return f.last.Table
}

// A follower runs a source on the running kernel and keeps its last table.
type follower struct {
	mu      sync.Mutex
	table   *timeline.Table
	updated chan struct{} // closed with the next table
	stop    func()
}

func followRunning(t *testing.T, settle time.Duration) *follower {
	t.Helper()
	f := &follower{updated: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- NewSource("/proc", "/sys", settle, timeline.Limits{}).Run(ctx, func(u symcache.Update) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.table = u.Table
			close(f.updated)
			f.updated = make(chan struct{})
		})
	}()
	f.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(f.stop)
	return f
}

// until waits until a condition holds for the last table, and returns how long that took. what describes
// the condition.
func (f *follower) until(t *testing.T, what string, holds func(*timeline.Table) bool) time.Duration {
	t.Helper()
	start := time.Now()
	deadline := time.After(5 * time.Minute)
	for {
		f.mu.Lock()
		table, updated := f.table, f.updated
		f.mu.Unlock()
		if table != nil && holds(table) {
			return time.Since(start)
		}
		select {
		case <-updated:
		case <-deadline:
			t.Fatal("waited in vain: ", what)
		}
	}
}

// find returns the image of a loaded module, nil if it is not loaded.
func find(table *timeline.Table, name string) *timeline.Image {
	for _, m := range table.Loaded() {
		if m.Name() == name {
			return m
		}
	}
	return nil
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return content
}
