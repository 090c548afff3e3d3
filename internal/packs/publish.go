// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// forgetAfter is how long the request for an unused build is kept at least. It is also the time between two checks, as long
// as there is something to forget: nothing wakes an idle collector.
const forgetAfter = 5 * time.Minute

// A View holds the packs of a store at one moment. It is immutable.
type View struct {
	Packs *pack.Set

	// Snapshot returns the symbols of these packs. It is nil unless the store is for a gateway.
	Snapshot func() *timeline.Snapshot

	table *timeline.Table // with the same symbols
}

// noSymbols is the table of a view whose symbols are not wanted.
var noSymbols = timeline.NewTable()

func newView(open []*openPack, gateway bool) *View {
	packs := make([]*pack.Pack, 0, len(open))
	images := make([]*timeline.Image, 0, len(open))
	for _, p := range open {
		packs = append(packs, p.pack)
		images = append(images, p.image)
	}
	v := &View{Packs: pack.NewSet(packs), table: noSymbols}
	if gateway {
		snapshot := timeline.NewPackSnapshot(images...)
		v.Snapshot = func() *timeline.Snapshot { return snapshot }
		v.table = snapshot.Tables()[0]
	}
	return v
}

// publish publishes updates until ctx is done.
func (s *Store) publish(ctx context.Context, publish func(symcache.Update)) {
	var due <-chan time.Time
	for {
		s.mu.Lock()
		if due == nil && s.state.isUnsettled() {
			due = time.After(forgetAfter)
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-s.news:
		case <-due:
			due = nil
			s.forget()
		}
		publish(s.update())
	}
}

// update brings the view up to date, and returns the update to publish. Only one goroutine calls it.
func (s *Store) update() symcache.Update {
	s.mu.Lock()
	u := symcache.Update{Degraded: s.state.health(), Changes: s.state.changes.Take()}
	open, changed := s.state.open.list()
	s.mu.Unlock()
	if changed {
		s.view.Store(newView(open, s.opts.Gateway))
	}
	u.Table = s.View().table
	return u
}

// health returns the problem of the store, or nil if there is none.
func (s *storeState) health() error {
	return cmp.Or(s.queue.broken[inDirectory], s.queue.broken[atURL], s.unkept, s.queue.problem())
}

// isUnsettled reports whether there is something to forget.
func (s *storeState) isUnsettled() bool { return len(s.queue.requests) > 0 || s.health() != nil }

// forget drops requests for unused builds, and checks whether what was broken while no build is in use still is.
func (s *Store) forget() {
	s.mu.Lock()
	s.state.queue.forget(time.Now())
	isBroken, isUnkept := s.state.queue.broken[inDirectory] != nil, s.state.unkept != nil
	s.mu.Unlock()
	if isBroken {
		s.checkDir()
	}
	if isUnkept {
		s.noteKept(s.dir.checkDisk())
	}
}

// checkDir records whether packs can be found in the directory. It removes abandoned drafts if that can be trusted.
func (s *Store) checkDir() {
	err := s.dir.check()
	if err == nil && s.dir.fetches {
		s.dir.removeAbandoned()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.queue.broken[inDirectory] = err
}

// noteKept records why a fetched pack could not be kept, or nil.
func (s *Store) noteKept(err error) {
	if err != nil {
		err = fmt.Errorf("debug_info::directory: keeping a pack: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.unkept = err
}
