// SPDX-License-Identifier: Apache-2.0

// Package kernelsymprocessor is the implementation of the processor "kernelsym":
// for each message it takes the current snapshot of the kernel's symbols, and of packs,
// rewrites the message with it, and counts the frames.
package kernelsymprocessor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Processor rewrites the profiles of one pipeline. Its methods are safe for
// concurrent use.
type Processor struct {
	component *Component

	known atomic.Pointer[current] // nil while stopped

	mu   sync.Mutex // held by Start and Shutdown
	stop []func()   // what Shutdown has to call; nil while stopped
}

// current is what is used, and the cache's method Fresh: as a value it is allocated once.
type current struct {
	Knowledge
	fresh func() *timeline.Snapshot
}

// now returns what is known when a message comes.
func (c *current) now() rewrite.Sources {
	known := rewrite.Sources{Snapshot: c.fresh}
	known.Now, known.Clock = c.Now()
	if c.Packs != nil {
		view := c.Packs.View()
		known.Packs = view.Packs
		if view.Snapshot != nil { // on a gateway
			known.Snapshot = view.Snapshot
		}
	}
	return known
}

// readyWithin is for how long Start waits for symbols at most.
const readyWithin = 2 * time.Second

// Start begins to keep symbols, and to report as the component's status whether
// they can be had. It waits until they are read, two seconds at most, so that the first
// message has names (contract 6.2). Started twice, it does nothing.
func (p *Processor) Start(ctx context.Context, host component.Host) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		return nil
	}
	known, release, err := p.component.acquire(host)
	if err != nil {
		return err
	}
	unobserve, err := p.component.observe(known)
	if err != nil {
		release()
		return err
	}
	p.known.Store(&current{known, known.Fresh})
	unwatch := known.Watch(func(health []symcache.Health) { reportStatus(host, health) })
	p.stop = []func(){unwatch, unobserve, release}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	known.WaitReady(ctx)
	return nil
}

// Shutdown gives the symbols back. A processor that does not run, or not any
// more, passes profiles on as they are.
func (p *Processor) Shutdown(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Store(nil)
	for _, stop := range p.stop {
		stop()
	}
	p.stop = nil
	return nil
}

// ProcessProfiles puts names on the kernel frames of pd. It never fails.
func (p *Processor) ProcessProfiles(ctx context.Context, pd pprofile.Profiles) (pprofile.Profiles, error) {
	start := time.Now()
	current := p.known.Load()
	known := rewrite.Sources{Snapshot: nothing}
	if current != nil {
		known = current.now()
	}
	result := p.component.rewriter.Rewrite(pd, known)
	if result.Counts != (rewrite.Counts{}) {
		p.component.metrics.count(ctx, &result, time.Since(start))
	}
	if current != nil && current.Packs != nil {
		current.Packs.Use(result.BuildIDs, result.FileIDs)
	}
	return result.Profiles, nil
}

// nothing is what a processor knows that does not run.
func nothing() *timeline.Snapshot { return nil }

// reportStatus reports what is wrong with the sources or, once all have begun, that
// nothing is.
func reportStatus(host component.Host, health []symcache.Health) {
	var errs []error
	starting := false
	for _, h := range health {
		switch h.State {
		case symcache.StateStarting:
			starting = true
		case symcache.StateDegraded, symcache.StateDown:
			errs = append(errs, fmt.Errorf("%s is %s: %w", h.Source, h.State, h.Err))
		}
	}
	switch {
	case len(errs) > 0:
		componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(errors.Join(errs...)))
	case !starting:
		componentstatus.ReportStatus(host, componentstatus.NewEvent(componentstatus.StatusOK))
	}
}
