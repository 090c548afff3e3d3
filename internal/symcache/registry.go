// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// keepUnused is for how long a cache is kept that nobody uses. A collector that reloads
// its configuration stops all of its components before it starts the new ones, and some
// exporters take long to stop.
const keepUnused = time.Minute

// Shared is a cache, or a struct that embeds one. Its methods do what those of [Cache] do.
type Shared interface {
	Resume(logger *zap.Logger)
	Pause()
	Stop()
}

// A Registry shares caches between those that want the same. It starts a cache for the
// first that asks for its key. After the last one has released it, the cache is paused, and
// a minute later stopped, unless somebody has asked for it again. Its zero value is ready for
// use, and it is safe for concurrent use.
type Registry[K comparable, S Shared] struct {
	mu     sync.Mutex
	shared map[K]*lease[S]
}

// lease is a cache and who uses it.
type lease[S Shared] struct {
	cache S
	users int
	turn  int // how often the cache was paused
}

// Acquire returns the cache for key, which it starts by calling start if there is none.
// Later messages about a cache that was paused go to the logger. release must be called
// once, when the cache is no longer needed; it waits until a cache that it pauses has paused.
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

// forget takes a cache out of the registry, unless somebody has used it since that turn.
func (r *Registry[K, S]) forget(key K, l *lease[S], turn int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.users > 0 || l.turn != turn {
		return false
	}
	delete(r.shared, key)
	return true
}
