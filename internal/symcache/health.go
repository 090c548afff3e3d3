// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"fmt"
	"time"
)

// State is the state of a source.
type State uint8

// The states of a source.
const (
	StateStarting State = iota // has not published yet
	StateUp
	StateDegraded // something is missing from its table, or the table is not kept current
	StateDown     // has no table
)

// String returns the state in lower case.
func (s State) String() string {
	return [...]string{"starting", "up", "degraded", "down"}[s]
}

// Health is the state of a source, and the reason for it.
type Health struct {
	Source string
	State  State
	Err    error // nil if the source is starting or up
}

// Health returns the health of each source, in the order in which they were given to Start. A
// nil Cache has no sources.
func (c *Cache) Health() []Health {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Health(nil), c.state.health...)
}

// watcher has the functions to call on a change or a delay; either can be nil.
type watcher struct {
	changed func([]Health)
	delayed func(source string, kind Kind, delay time.Duration)
}

// Watch calls changed with the health of all sources, at once and after each
// change, one call at a time, until stop is called. changed must return soon and
// must not call methods of the cache; it must not keep the slice.
func (c *Cache) Watch(changed func([]Health)) (stop func()) {
	return c.add(&watcher{changed: changed})
}

func (c *Cache) add(w *watcher) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.watchers[w] = struct{}{}
	if w.changed != nil {
		w.changed(c.state.health)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.state.watchers, w)
	}
}

// setHealth logs and reports a change. It is called with c.mu held.
func (c *Cache) setHealth(i int, state State, err error) {
	was := c.state.health[i]
	if was.State == state && fmt.Sprint(was.Err) == fmt.Sprint(err) {
		return
	}
	c.state.health[i] = Health{Source: was.Source, State: state, Err: err}
	c.log(i)
	for w := range c.state.watchers {
		if w.changed != nil {
			w.changed(c.state.health)
		}
	}
}
