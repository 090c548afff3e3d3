package kernelsymprocessor

import (
	"sync"

	"go.opentelemetry.io/collector/component"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/symcache"
)

// Acquire returns a running cache of symbols, and what gives it back. While it has not been
// given back, the next call returns the same.
type Acquire func() (cache *symcache.Cache, release func())

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
// symbols from the cache that acquire returns.
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

// observe reports the cache until every processor that called it has called stop. All
// acquired the same cache, and release it afterwards.
func (c *Component) observe(cache *symcache.Cache) (stop func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.observers == 0 {
		c.unobserve, err = c.metrics.observe(cache, c.rewriter)
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
