// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"sync"

	"go.opentelemetry.io/collector/component"

	"github.com/kernelsym/kernelsym/internal/packs"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/symcache"
)

// Knowledge is what processors share: a running cache of symbols and, if packs are wanted,
// the store of packs, which is among its sources.
type Knowledge struct {
	*symcache.Cache
	Packs *packs.Store // may be nil
}

// Acquire returns what is known, and what gives it back. While it has not been given back,
// the next call returns the same. The host has the extensions that fetching packs may need.
type Acquire func(host component.Host) (known Knowledge, release func(), err error)

// A Component is what the processors with one id have in common. A collector makes one for
// each pipeline with that id, and they count together: OpenTelemetry adds up what several
// callbacks report of a counter.
type Component struct {
	rewriter *rewrite.Rewriter
	acquire  Acquire
	metrics  *metrics

	mu        sync.Mutex
	observers int    // processors that run
	unobserve func() // if there are some
}

// NewComponent returns the component with an id. Its processors rewrite as opts say, with
// what acquire returns.
func NewComponent(
	id component.ID, set component.TelemetrySettings, opts rewrite.Options, acquire Acquire,
) (*Component, error) {
	m, err := newMetrics(id, set)
	if err != nil {
		return nil, err
	}
	return &Component{rewriter: rewrite.New(opts), acquire: acquire, metrics: m}, nil
}

// NewProcessor returns a processor for one more pipeline.
func (c *Component) NewProcessor() *Processor { return &Processor{component: c} }

// observe reports what is known until every processor that called it has called stop. All
// acquired the same, and release it afterwards.
func (c *Component) observe(known Knowledge) (stop func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.observers == 0 {
		c.unobserve, err = c.metrics.observe(known, c.rewriter)
		if err != nil {
			return nil, err
		}
	}
	c.observers++
	return c.stopObserving, nil
}

func (c *Component) stopObserving() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers--
	if c.observers == 0 {
		c.unobserve()
	}
}
