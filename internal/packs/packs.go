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

// A Store keeps the packs of builds that are in use. It is a source of a [symcache.Cache], which runs it. On a gateway,
// its table has the symbols of packs. Elsewhere it has none: they have no addresses on this machine. It is safe for
// concurrent use.
type Store struct {
	opts    Options
	dir     directory
	from    fetcher
	view    atomic.Pointer[View]
	pace    pace       // of fetches
	news    signal     // there may be something to publish
	loading sync.Mutex // held while a pack is read, so that only one at a time takes memory for that
	slot    uint32     // slot of the last image; guarded by loading

	mu    sync.Mutex // guards state; locked after loading
	state storeState
}

// storeState holds the fields that the mutex of a Store guards.
type storeState struct {
	open    library
	queue   queue
	unkept  error            // why the last fetched pack could not be kept
	changes symcache.Changes // since the last update
	ended   chan struct{}    // closed when a search for a pack ends
}

// New returns a store without packs.
func New(opts Options) *Store {
	s := &Store{
		opts:  opts,
		dir:   directory{path: opts.Directory, fetches: opts.Directory != "" && opts.URL != "", maxDisk: opts.MaxDisk},
		from:  fetcher{url: opts.URL, limit: min(maxFetched, opts.MaxBytes)},
		pace:  newPace(),
		news:  newSignal(),
		state: storeState{open: newLibrary(opts.MaxBytes), queue: newQueue(opts.URL != ""), ended: make(chan struct{})},
	}
	s.view.Store(newView(nil, opts.Gateway))
	s.SetClient(http.DefaultClient)
	return s
}

// SetClient sets the client that fetches packs from now on. It follows redirects only on the same host, and not from
// https to http.
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
	return Stats{Open: len(s.state.open.packs), Bytes: s.state.open.bytes(), Fetches: s.from.sent.Load(), Refused: s.state.queue.refused}
}

// Use says which builds are in use on a host, by their build ids and file IDs (see contract 4.2). Their packs are added
// to the set later, if they can be found. Use never waits, and ignores strings that cannot be ids.
func (s *Store) Use(host string, buildIDs, fileIDs []string) {
	now := time.Now()
	set := s.View().Packs
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range buildIDs {
		s.state.use(host, requestID{text: id}, now)
	}
	for _, id := range fileIDs {
		if p := set.ByFileID(id); p != nil {
			s.state.use(host, requestID{text: p.Info().BuildID}, now)
		} else {
			s.state.use(host, requestID{text: id, isFile: true}, now)
		}
	}
}

// Pack returns the pack of a build that is in use on this host. It waits until the pack is open or
// the search for it has ended, which the error says why. The store must run meanwhile.
func (s *Store) Pack(ctx context.Context, buildID string) (*pack.Pack, error) {
	const thisHost = ""
	for {
		s.Use(thisHost, []string{buildID}, nil)
		s.mu.Lock()
		ended, open := s.state.ended, s.state.open.packs[buildID]
		searching, err := s.state.queue.search(requestID{text: buildID})
		s.mu.Unlock()
		switch {
		case open != nil:
			return open.pack, nil
		case !searching:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ended:
		}
	}
}

// use records that a build is in use. It requests the pack unless that is open and its file need not be checked.
func (s *storeState) use(host string, id requestID, now time.Time) {
	isOpen := !id.isFile && s.open.use(id.text, now)
	if !isOpen && pack.IsBuildID(id.text) {
		s.queue.add(host, id, now)
	}
}

// Name implements [symcache.Source].
func (s *Store) Name() string { return "packs" }

// Run reads and fetches packs until ctx is done.
func (s *Store) Run(ctx context.Context, publish func(symcache.Update)) error {
	s.checkDir()
	var workers sync.WaitGroup
	workers.Go(func() { s.readAll(ctx) })
	if s.opts.URL != "" {
		for range maxFetches {
			workers.Go(func() { s.fetchAll(ctx) })
		}
	}
	s.news.wake()
	s.publish(ctx, publish)
	workers.Wait()
	return nil
}

// next waits for a request whose turn it is at an origin, and takes it. It returns false if ctx is done. Only one
// goroutine at a time may wait for an origin.
func (s *Store) next(ctx context.Context, at origin) (requestID, bool) {
	for ctx.Err() == nil {
		s.mu.Lock()
		id, ok := s.state.queue.next(at)
		ready := s.state.queue.waiting[at].ready
		s.mu.Unlock()
		if ok {
			return id, true
		}
		select {
		case <-ctx.Done():
		case <-ready:
		}
	}
	return requestID{}, false
}

// finish ends the search for a pack at an origin. If the request is gone, it returns the hosts that made it.
func (s *Store) finish(id requestID, at origin, err error) (hosts []string) {
	defer s.news.wake()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.state.ended)
	s.state.ended = make(chan struct{})
	return s.state.queue.finish(id, at, err, time.Now())
}
