// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// running is the kernel of this machine, which is loaded when it is first asked for.
type running struct {
	procfs, sysfs string
	warn          func(error)
	snapshot      *timeline.Snapshot // nil before that
	failed        error              // of loading it

	// If it is followed, how it is known now, and since when it is followed, on the clock of
	// lifetimes. The snapshot is fresh until outdated is called.
	fresh func() *timeline.Snapshot
	since int64
}

// load returns what is known of the kernel.
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

// outdated says that a kernel which is followed can have changed.
func (r *running) outdated() {
	if r.fresh != nil {
		r.snapshot = nil
	}
}

// load returns what sources find, and gives what they do not find to warn. The error says why
// they find nothing.
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

// known reports whether anything is known of the kernel.
func known(s *timeline.Snapshot) bool {
	for _, t := range s.Tables() {
		if len(t.Loaded()) > 0 {
			return true
		}
	}
	return false
}
