// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// keepUnused is how long an unused cache is kept. A collector that reloads its configuration
// stops all of its components before it starts the new ones, and some exporters take long to
// stop.
const keepUnused = time.Minute

// Pausable is a cache, or a value that has one. Its methods behave like the methods of
// [Cache].
type Pausable interface {
	Resume(logger *zap.Logger)
	Pause()
	Stop()
}

// A Registry shares caches between users that ask for the same key. It starts a cache for the
// first user. After the last user has released the cache, the registry pauses it, and a minute
// later stops it, unless it was acquired again. The zero value is ready for use. A Registry is
// safe for concurrent use.
type Registry[K comparable, S Pausable] struct {
	mu     sync.Mutex
	shared map[K]*lease[S]
}

// lease is a cache and the number of its users.
type lease[S Pausable] struct {
	cache S
	users int
	turn  int // how often the cache was paused
}

// Acquire returns the cache for key. If there is none, it calls start to start one. If the
// cache was paused, later messages about it go to the logger. release must be called once, when
// the cache is no longer needed. If release pauses the cache, it waits until the cache has
// paused.
func (r *Registry[K, S]) Acquire(key K, logger *zap.Logger, start func() S) (cache S, release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.shared[key]
	switch {
	case l == nil:
		l = &lease[S]{cache: start()}
		if r.shared == nil {
			r.shared = make(map[K]*lease[S])
		}
		r.shared[key] = l
	case l.users == 0:
		l.cache.Resume(logger)
	}
	l.users++
	return l.cache, func() { r.release(key, l) }
}

func (r *Registry[K, S]) release(key K, l *lease[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.cache.Pause()
	l.turn++
	turn := l.turn
	time.AfterFunc(keepUnused, func() {
		if r.forget(key, l, turn) {
			l.cache.Stop()
		}
	})
}

// forget removes a cache from the registry, unless it has been used since that turn.
func (r *Registry[K, S]) forget(key K, l *lease[S], turn int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.users > 0 || l.turn != turn {
		return false
	}
	delete(r.shared, key)
	return true
}
