// SPDX-License-Identifier: Apache-2.0

// Package symcache runs the sources of kernel symbols and publishes their tables as one
// snapshot.
package symcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/poller"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Source keeps one kind of kernel symbol current.
type Source interface {
	// Name identifies the source in messages and metrics.
	Name() string

	// Run publishes a whole table, then a new one after changes, until ctx is done or it can no
	// longer vouch for its last table; then its error says why. A source with many changes may
	// publish less often if it is a Refresher. Run starts no goroutine
	// that outlives the call and never changes a published table. publish is safe for
	// concurrent use; later calls must have later tables.
	//
	// Run can be called again after it has returned.
	Run(ctx context.Context, publish func(Update)) error
}

// A Refresher is a source that can bring its table up to the present without waiting for
// anything: before Refresh returns, the source publishes everything that has happened so far.
// Refresh is safe for concurrent use, even while the source does not run.
type Refresher interface {
	Source
	Refresh()
}

// A Cache runs sources and holds their last tables. It is safe for concurrent use.
type Cache struct {
	clock    *realtime.Tracker // may be nil
	sources  []Source
	snapshot atomic.Pointer[timeline.Snapshot]
	cancel   context.CancelFunc // of the sources
	done     sync.WaitGroup     // until they have ended

	newBackOff func() backoff.BackOff

	mu    sync.Mutex // guards state; held while watchers are called
	state state
}

// state holds the fields that the mutex of a Cache guards. Its slices are indexed by source.
type state struct {
	ctx      context.Context // of the sources
	ready    chan struct{}   // closed when every source has published or failed
	begun    map[int]bool    // sources that have published or failed
	logger   *zap.Logger
	tables   []*timeline.Table
	health   []Health
	counts   []SourceCounts
	messages []messages // the log messages about each source
	watchers map[*watcher]struct{}
}

// Start returns a cache whose sources run until Stop is called. Until then it also follows the
// wall clock with the tracker, which may be nil. The tables in a snapshot are in the order of
// the sources.
func Start(logger *zap.Logger, clock *realtime.Tracker, sources ...Source) *Cache {
	return start(logger, clock, newBackOff, sources)
}

func start(
	logger *zap.Logger, clock *realtime.Tracker, newBackOff func() backoff.BackOff, sources []Source,
) *Cache {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Cache{clock: clock, sources: sources, cancel: cancel, newBackOff: newBackOff}
	c.state = state{
		ctx: ctx, logger: logger, ready: make(chan struct{}), begun: make(map[int]bool),
		tables: make([]*timeline.Table, len(sources)), watchers: make(map[*watcher]struct{}),
	}
	for _, s := range sources {
		c.state.health = append(c.state.health, Health{Source: s.Name()})
		c.state.counts = append(c.state.counts, SourceCounts{Source: s.Name()})
		c.state.messages = append(c.state.messages, newMessages())
	}
	if len(sources) == 0 {
		close(c.state.ready)
	}
	c.snapshot.Store(timeline.NewSnapshot())
	for i := range sources {
		c.done.Go(func() { c.run(ctx, i) })
	}
	if clock != nil {
		c.done.Go(func() { poller.EveryOrStep(ctx, readClock, func() { clock.Now() }) })
	}
	return c
}

// LogTo sends all further messages about the sources to a logger.
func (c *Cache) LogTo(logger *zap.Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.logger = logger
}

// Stop ends the sources and waits for them. The last snapshot stays. It can be called more than once.
func (c *Cache) Stop() {
	c.mu.Lock()
	c.cancel() // from now on, log starts no goroutine
	c.mu.Unlock()
	c.done.Wait()
}

// WaitReady waits until every source has published or failed, or ctx is done.
func (c *Cache) WaitReady(ctx context.Context) {
	select {
	case <-c.state.ready:
	case <-ctx.Done():
	}
}

// readClock is the time between two readings of the clock. If the kernel does not report when
// the wall clock is set, this is how precisely that time is known.
const readClock = 10 * time.Second

// Load runs the sources until each has published once, and returns their tables as a snapshot.
// The error says what is missing from the tables, and which source failed or was not ready when
// ctx was done; the snapshot holds the rest.
func Load(ctx context.Context, sources ...Source) (*timeline.Snapshot, error) {
	tables := make([]*timeline.Table, len(sources))
	errs := make([]error, len(sources))
	var wait sync.WaitGroup
	for i, s := range sources {
		wait.Go(func() {
			if tables[i], errs[i] = LoadTable(ctx, s); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", s.Name(), errs[i])
			}
		})
	}
	wait.Wait()
	return timeline.NewSnapshot(tables...), errors.Join(errs...)
}

// LoadTable runs a source until it has published once, and returns its table. The error says what is missing from the table
// or, if that is nil, why the source failed or was not ready when ctx was done.
func LoadTable(ctx context.Context, s Source) (table *timeline.Table, missing error) {
	once, cancel := context.WithCancel(ctx)
	defer cancel()
	err := s.Run(once, func(u Update) {
		table, missing = u.Table, u.Degraded
		cancel()
	})
	if table == nil {
		return nil, cmp.Or(err, context.Cause(ctx))
	}
	return table, missing
}

// Snapshot returns the current snapshot. It never waits. The snapshot of a nil Cache is nil.
func (c *Cache) Snapshot() *timeline.Snapshot {
	if c == nil {
		return nil
	}
	return c.snapshot.Load()
}

// Tables returns the current table of each source that has published, by the source's name.
func (c *Cache) Tables() map[string]*timeline.Table {
	tables := make(map[string]*timeline.Table)
	if c == nil {
		return tables
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range c.state.tables {
		if t != nil {
			tables[c.state.counts[i].Source] = t
		}
	}
	return tables
}

// Fresh brings every [Refresher] among the sources up to the present, and returns the snapshot
// after that. It never waits. The snapshot of a nil Cache is nil.
func (c *Cache) Fresh() *timeline.Snapshot {
	if c == nil {
		return nil
	}
	for _, s := range c.sources {
		if s, ok := s.(Refresher); ok {
			s.Refresh()
		}
	}
	return c.snapshot.Load()
}

// Now returns the time on the clock of the snapshot, and a Clock that converts Unix times to
// it, or nil if there is no clock.
func (c *Cache) Now() (int64, *realtime.Clock) {
	if c == nil || c.clock == nil {
		return 0, nil
	}
	return c.clock.Now()
}

// The time between two runs of a failing source doubles from the first to the second of these.
// It varies at random by up to half.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

func newBackOff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = minRetry, maxRetry, 2
	return b
}

var errStopped = errors.New("source stopped unexpectedly")

// run keeps source i running.
func (c *Cache) run(ctx context.Context, i int) {
	retry := c.newBackOff()
	for {
		err := c.sources[i].Run(ctx, func(u Update) {
			retry.Reset()
			c.publish(i, &u)
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errStopped
		}
		c.failed(i, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry.NextBackOff()):
		}
	}
}

func (c *Cache) publish(i int, u *Update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.tables[i] = u.Table
	c.snapshot.Store(timeline.NewSnapshot(c.state.tables...))
	c.state.noteChanges(i, &u.Changes)
	c.state.begin(i)
	state := StateUp
	if u.Degraded != nil {
		state = StateDegraded
	}
	c.setHealth(i, state, u.Degraded)
}

// failed notes that a source stopped. Its last table stays in use.
func (c *Cache) failed(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.begin(i)
	state := StateDown
	if c.state.tables[i] != nil {
		state = StateDegraded
	}
	c.setHealth(i, state, err)
}

// begin notes that source i has published or failed.
func (s *state) begin(i int) {
	if s.begun[i] {
		return
	}
	s.begun[i] = true
	if len(s.begun) == len(s.health) {
		close(s.ready)
	}
}
