// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// running is the kernel of this machine. Its snapshot is loaded on first use.
type running struct {
	procfs, sysfs string
	warn          func(error)
	snapshot      *timeline.Snapshot // nil until loaded
	failed        error              // the error of loading it

	// While the kernel is followed, fresh returns its current snapshot, and since is when following
	// began, on the clock of lifetimes. The snapshot above stays valid until outdated is called.
	fresh func() *timeline.Snapshot
	since int64
}

// load returns the snapshot of the kernel.
func (r *running) load(ctx context.Context) (*timeline.Snapshot, error) {
	switch {
	case r.snapshot != nil || r.failed != nil:
	case r.fresh != nil:
		r.snapshot = r.fresh()
	default:
		r.snapshot, r.failed = load(ctx, sources.Everything(r.procfs, r.sysfs), r.warn)
	}
	return r.snapshot, r.failed
}

// outdated drops the snapshot of a kernel that is followed, because the kernel may have changed.
func (r *running) outdated() {
	if r.fresh != nil {
		r.snapshot = nil
	}
}

// load returns the snapshot that the sources give, and passes to warn what is missing from it. It
// returns an error only if the snapshot is empty or ctx is done.
func load(ctx context.Context, o sources.Options, warn func(error)) (*timeline.Snapshot, error) {
	snapshot, err := symcache.Load(ctx, sources.List(o)...)
	if ctx.Err() != nil { // some sources may not have been ready
		return nil, context.Cause(ctx)
	}
	if err != nil && !known(snapshot) {
		return nil, err
	}
	if err != nil {
		warn(err)
	}
	return snapshot, nil
}

// known reports whether a snapshot has any code.
func known(s *timeline.Snapshot) bool {
	for _, t := range s.Tables() {
		if len(t.Loaded()) > 0 {
			return true
		}
	}
	return false
}
