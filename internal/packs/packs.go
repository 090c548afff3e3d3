// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symcache"
)

// Options say where packs come from, and how much room they may take.
type Options struct {
	Directory string // holds packs; empty if there is none
	URL       string // with {build_id} and {format}; empty to fetch none
	MaxBytes  int64  // limit on the memory of open packs
	MaxDisk   int64  // limit on the bytes of fetched packs in the directory, also of those that are being fetched
	Gateway   bool   // whether the symbols of packs are wanted, too (see contract 10.2)
}

// A Store keeps the packs of builds that are in use. It is a source of a [symcache.Cache],
// which runs it. On a gateway, its table has the symbols of packs. Elsewhere it has none: they
// have no addresses on this machine. It is safe for concurrent use.
type Store struct {
	opts    Options
	dir     directory
	from    fetcher
	view    atomic.Pointer[View]
	queues  [numPlaces]queue
	pace    pace // of requests
	news    queue
	loading sync.Mutex // held while a pack is read, so that only one at a time takes memory for that
	slot    uint32     // slot of the last image; guarded by loading

	mu    sync.Mutex // guards state; locked after loading
	state state
}

// state holds the fields that the mutex of a Store guards.
type state struct {
	open    library
	wishes  wishes
	broken  [numPlaces]error // why a place can provide no packs at all
	unkept  error            // why the last fetched pack could not be kept
	changes symcache.Changes // since the last update
	refused [NumReasons]int64
}

// New returns a store without packs.
func New(opts Options) *Store {
	s := &Store{
		opts:   opts,
		dir:    directory{path: opts.Directory, fetches: opts.URL != "", maxDisk: opts.MaxDisk},
		from:   fetcher{url: opts.URL, limit: min(maxFetched, opts.MaxBytes)},
		queues: [numPlaces]queue{placeDirectory: newQueue(), placeURL: newQueue()},
		pace:   newPace(),
		news:   newQueue(),
		state:  state{open: newLibrary(opts.MaxBytes), wishes: newWishes()},
	}
	s.view.Store(newView(nil, opts.Gateway))
	s.SetClient(http.DefaultClient)
	return s
}

// SetClient sets the client that fetches packs from now on. It follows redirects only on the
// same host, and not from https to http.
func (s *Store) SetClient(client *http.Client) { s.from.client.Store(staysAt(client)) }

// View returns the packs that are open. It never waits.
func (s *Store) View() *View { return s.view.Load() }

// Stats describe a store and its work so far.
type Stats struct {
	Open    int   // number of packs
	Bytes   int64 // memory that they take
	Fetches int64 // requests that were sent
	Refused [NumReasons]int64
}

// Stats returns the current statistics of the store.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Open: len(s.state.open.packs), Bytes: s.state.open.bytes, Fetches: s.from.sent.Load(), Refused: s.state.refused}
}

// Use says which builds are in use on a host (see [HostOf]), by their build ids and file IDs (see contract 4.2). Their
// packs are added to the set later, if they can be found. Use never waits, and ignores strings
// that cannot be ids.
func (s *Store) Use(host string, buildIDs, fileIDs []string) {
	now := time.Now()
	set := s.View().Packs
	s.mu.Lock()
	defer s.mu.Unlock()
	isNew := false
	for _, id := range buildIDs {
		isNew = s.state.use(host, wishID{text: id}, now) || isNew
	}
	for _, id := range fileIDs {
		if p := set.ByFileID(id); p != nil {
			isNew = s.state.use(host, wishID{text: p.Info().BuildID}, now) || isNew
		} else {
			isNew = s.state.use(host, wishID{text: id, isFile: true}, now) || isNew
		}
	}
	if isNew {
		s.queues[placeDirectory].wake()
	}
}

// use records that a build is in use, and reports whether to look for its pack now.
func (s *state) use(host string, id wishID, now time.Time) bool {
	if !id.isFile && s.open.use(id.text, now) {
		return false
	}
	return pack.IsBuildID(id.text) && s.wishes.add(host, id, now)
}

// Name implements [symcache.Source].
func (s *Store) Name() string { return "packs" }

// Run looks for packs until ctx is done.
func (s *Store) Run(ctx context.Context, publish func(symcache.Update)) error {
	err := s.dir.check()
	if err == nil && s.opts.URL != "" {
		s.dir.removeAbandoned()
	}
	s.mu.Lock()
	s.state.broken[placeDirectory] = err
	for at, q := range s.queues {
		if s.state.wishes.wait(place(at)) {
			q.wake()
		}
	}
	s.mu.Unlock()
	var workers sync.WaitGroup
	workers.Go(func() { s.lookAll(ctx) })
	for range maxFetches {
		if s.opts.URL == "" {
			break
		}
		workers.Go(func() { s.fetchAll(ctx) })
	}
	s.news.wake()
	s.publish(ctx, publish)
	workers.Wait()
	return nil
}

// lookAll looks for packs in the directory, one after the other, until ctx is done.
func (s *Store) lookAll(ctx context.Context) {
	for s.queues[placeDirectory].wait(ctx) {
		if id := s.next(placeDirectory); id != (wishID{}) {
			s.look(id)
		}
	}
}

// fetchAll fetches packs, one after the other, until ctx is done.
func (s *Store) fetchAll(ctx context.Context) {
	for s.queues[placeURL].wait(ctx) {
		request, ok := s.pace.start(ctx)
		if !ok {
			return
		}
		if id := s.next(placeURL); id == (wishID{}) || s.fetch(ctx, id) {
			request.missed()
		}
	}
}

// next takes the next wish that waits for a place, if any.
func (s *Store) next(at place) wishID {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, more := s.state.wishes.next(at)
	if more {
		s.queues[at].wake()
	}
	return id
}

// update brings the view up to date, and returns the update to publish. Only one goroutine
// calls it.
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
