// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"context"
	"fmt"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
)

// forgetAfter is how long an unused wish is kept. It is also the time between two checks, as
// long as there is something to forget: nothing wakes an idle collector.
const forgetAfter = 5 * time.Minute

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

// isUnsettled reports whether there is something to forget.
func (s *state) isUnsettled() bool {
	return len(s.wishes.all) > 0 || s.broken != [numPlaces]error{} || s.unkept != nil
}

// forget drops unused wishes. If no wish is left that would find out whether a place is still
// broken, it drops the error of the URL, and checks the directory itself. It also checks
// whether packs can be kept again.
func (s *Store) forget() {
	s.mu.Lock()
	builds := s.state.wishes.forget(time.Now().Add(-forgetAfter))
	if builds == 0 {
		s.state.broken[placeURL] = nil
	}
	check := s.state.broken[placeDirectory] != nil && len(s.state.wishes.all) == 0
	unkept := s.state.unkept != nil
	s.mu.Unlock()
	if check {
		err := s.dir.check()
		s.mu.Lock()
		s.state.broken[placeDirectory] = err
		s.mu.Unlock()
	}
	if unkept {
		if d, err := s.dir.create(""); err == nil {
			_, err = d.file.Write(make([]byte, 4096)) // a full disk may still have room for a name
			d.discard()
			s.noteKept(err)
		}
	}
}

// forget drops the wishes that were last used before a time, and returns how many wishes for
// build ids are left.
func (w *wishes) forget(before time.Time) (builds int) {
	for id, wish := range w.all {
		switch {
		case wish.step != stepBusy && wish.used.Before(before):
			w.remove(id)
		case !id.isFile:
			builds++
		}
	}
	return builds
}

// noteKept records whether the last fetched pack was kept.
func (s *Store) noteKept(err error) {
	if err != nil {
		err = fmt.Errorf("debug_info::directory: keeping a pack: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.unkept = err
}
