// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/packs"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/symcache"
)

// Sources are what frames are named from: a running cache of symbols and, if packs are enabled, the store of packs,
// which is one of the cache's sources.
type Sources struct {
	Symbols *symcache.Cache
	Packs   *packs.Store // may be nil
}

// LogTo sends further messages about the sources to a logger.
func (s Sources) LogTo(logger *zap.Logger) { s.Symbols.LogTo(logger) }

// Stop stops the cache.
func (s Sources) Stop() { s.Symbols.Stop() }

// OpenSources returns running sources. Until release is called, further calls return the same ones. The host has the
// extensions that fetching packs may need.
type OpenSources func(host component.Host) (s Sources, release func(), err error)

// Shared is the part that all processors with one id have in common: a collector makes a processor for each pipeline
// with that id. They count together, because OpenTelemetry adds up what several callbacks report for one counter.
type Shared struct {
	rewriter *rewrite.Rewriter
	open     OpenSources
	metrics  *metrics

	mu        sync.Mutex
	observers int    // the number of processors that run
	unobserve func() // nil if none runs
}

// NewShared returns the shared part of the processors with an id. They rewrite with the options, and name frames from
// the sources that open returns.
func NewShared(id component.ID, set component.TelemetrySettings, opts rewrite.Options, open OpenSources) (*Shared, error) {
	m, err := newMetrics(id, set)
	if err != nil {
		return nil, err
	}
	return &Shared{rewriter: rewrite.New(opts), open: open, metrics: m}, nil
}

// NewProcessor returns a processor for one more pipeline.
func (s *Shared) NewProcessor() *Processor { return &Processor{shared: s} }

// observe reports metrics of sources until each processor that called it has called stop. All of them
// have opened the same sources, and release them afterwards.
func (s *Shared) observe(of Sources) (stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.observers == 0 {
		s.unobserve, err = s.metrics.observe(of, s.rewriter)
		if err != nil {
			return nil, err
		}
	}
	s.observers++
	return s.stopObserving, nil
}

func (s *Shared) stopObserving() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers--
	if s.observers == 0 {
		s.unobserve()
	}
}
