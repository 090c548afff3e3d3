// SPDX-License-Identifier: Apache-2.0

// Package running reads which code the kernel of this machine has: once, or again and again while the kernel is followed.
package running

import (
	"context"

	"github.com/kernelsym/kernelsym/internal/locate"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Kernel is the kernel of this machine. It is not safe for concurrent use.
type Kernel struct {
	Procfs, Sysfs string      // where the machine's /proc and /sys are mounted
	Warn          func(error) // prints why the snapshot lacks code

	// Packs are those by which the core kernel is located while it hides its symbols (see contract 10.5). If they are nil, it
	// must not be located. They are read in another goroutine.
	Packs locate.Packs

	snapshot *timeline.Snapshot // nil until read
	failed   error              // the error of reading it

	// While the kernel is followed, fresh returns its current snapshot, and since is when following
	// began, on the clock of lifetimes. The snapshot above stays valid until Outdated is called.
	fresh func() *timeline.Snapshot
	since int64
}

// Follow makes snapshots come from fresh, which has observed the kernel since an instant on the clock of lifetimes.
func (k *Kernel) Follow(fresh func() *timeline.Snapshot, since int64) {
	k.fresh, k.since = fresh, since
}

// Sources returns the sources of the kernel's code, which remember what was unloaded within limits.
func (k *Kernel) Sources(history timeline.Limits) []symcache.Source {
	o := sources.Everything(k.Procfs, k.Sysfs)
	o.History, o.Locate = history, k.Packs != nil
	return sources.ListLocating(o, k.Packs)
}

// Suffices reports whether a snapshot has any code and, if the kernel is to be located, that of the core kernel.
func (k *Kernel) Suffices(s *timeline.Snapshot) bool {
	return hasCode(s) && (k.Packs == nil || s.Core() != nil)
}

// Snapshot returns the snapshot of the kernel, which it reads on first use, and passes to Warn what is missing from it. If that
// does not suffice, or ctx is done, it returns the error, and the same one from then on.
func (k *Kernel) Snapshot(ctx context.Context) (*timeline.Snapshot, error) {
	switch {
	case k.snapshot != nil || k.failed != nil:
	case k.fresh != nil:
		k.snapshot = k.fresh()
	default:
		k.snapshot, k.failed = load(ctx, k.Sources(timeline.Limits{}), k.Suffices, k.Warn)
	}
	return k.snapshot, k.failed
}

// Failed reports whether the kernel could not be read.
func (k *Kernel) Failed() bool { return k.failed != nil }

// Outdated drops the snapshot of a kernel that is followed, because the kernel may have changed.
func (k *Kernel) Outdated() {
	if k.fresh != nil {
		k.snapshot = nil
	}
}

// WasReplaced reports whether the address that a hit in a snapshot is about had other code at any time since the kernel is
// followed.
func (k *Kernel) WasReplaced(s *timeline.Snapshot, hit timeline.Hit, addr uint64) bool {
	if k.fresh == nil || hit.Image == nil || hit.Image.Lifetime.From <= k.since {
		return false
	}
	before, _ := s.At(addr, timeline.Interval{From: k.since, To: hit.Image.Lifetime.From})
	return before.Image != nil || before.Reason != timeline.ReasonUnresolved // unobserved: it may have had other code
}

// Load returns the snapshot of some sources, and passes to warn what is missing from it. It returns an error only if the
// snapshot is empty or ctx is done.
func Load(ctx context.Context, list []symcache.Source, warn func(error)) (*timeline.Snapshot, error) {
	return load(ctx, list, hasCode, warn)
}

func load(ctx context.Context, list []symcache.Source, suffices func(*timeline.Snapshot) bool, warn func(error)) (*timeline.Snapshot, error) {
	snapshot, err := symcache.Load(ctx, list...)
	if ctx.Err() != nil { // some sources may not have been ready
		return nil, context.Cause(ctx)
	}
	if err != nil && !suffices(snapshot) {
		return nil, err
	}
	if err != nil {
		warn(err)
	}
	return snapshot, nil
}

func hasCode(s *timeline.Snapshot) bool {
	for _, t := range s.Tables() {
		if len(t.Loaded()) > 0 {
			return true
		}
	}
	return false
}
