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
	"github.com/kernelsym/kernelsym/internal/sender"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Processor rewrites the profiles of one pipeline. Its methods are safe for
// concurrent use.
type Processor struct {
	shared *Shared

	running atomic.Pointer[running] // nil while stopped

	mu   sync.Mutex // held by Start and Shutdown
	stop []func()   // what Shutdown must call; nil while stopped
}

// running has the sources of a processor that runs.
type running struct {
	sources Sources
	fresh   func() *timeline.Snapshot // the cache's method Fresh; as a value, it is allocated once
}

// forMessage returns the sources for a message that has just arrived.
func (r *running) forMessage() rewrite.Sources {
	s := rewrite.Sources{Snapshot: r.fresh}
	s.Now, s.Clock = r.sources.Symbols.Now()
	if r.sources.Packs != nil {
		view := r.sources.Packs.View()
		s.Packs = view.Packs
		if view.Snapshot != nil { // on a gateway
			s.Snapshot = view.Snapshot
		}
	}
	return s
}

// readyWithin is the longest time for which Start waits for symbols.
const readyWithin = 2 * time.Second

// Start opens the sources, and reports their health as the component's status. It waits until symbols are read, but at
// most two seconds, so that the first message has names (contract 6.2). If the processor runs already, Start does
// nothing.
func (p *Processor) Start(ctx context.Context, host component.Host) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		return nil
	}
	sources, release, err := p.shared.open(host)
	if err != nil {
		return err
	}
	unobserve, err := p.shared.observe(sources)
	if err != nil {
		release()
		return err
	}
	p.running.Store(&running{sources, sources.Symbols.Fresh})
	unwatch := sources.Symbols.Watch(func(health []symcache.Health) { reportStatus(host, health) })
	p.stop = []func(){unwatch, unobserve, release}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	sources.Symbols.WaitReady(ctx)
	return nil
}

// Shutdown releases the sources. A processor that does not run knows no kernel: it names nothing, and passes profiles on as
// it does before the symbols are read.
func (p *Processor) Shutdown(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running.Store(nil)
	for _, stop := range p.stop {
		stop()
	}
	p.stop = nil
	return nil
}

// ProcessProfiles puts names on the kernel frames of pd. It never fails.
func (p *Processor) ProcessProfiles(ctx context.Context, pd pprofile.Profiles) (pprofile.Profiles, error) {
	start := time.Now()
	running := p.running.Load()
	sources := rewrite.Sources{Snapshot: noSnapshot}
	if running != nil {
		sources = running.forMessage()
	}
	sources.Local = sender.IsLocal(ctx)
	result := p.shared.rewriter.Rewrite(pd, sources)
	if result.Counts != (rewrite.Counts{}) {
		p.shared.metrics.count(ctx, &result, time.Since(start))
	}
	if running != nil && running.sources.Packs != nil {
		running.sources.Packs.Use(sender.Host(ctx), result.BuildIDs, result.FileIDs)
	}
	return result.Profiles, nil
}

// noSnapshot is the snapshot of a processor that does not run.
func noSnapshot() *timeline.Snapshot { return nil }

// reportStatus reports the problems of the sources or, once all have started without any, that all is well.
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
