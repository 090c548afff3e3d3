// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// keepUnused is how long an unused cache runs on. A collector that reloads its configuration
// stops all of its components before it starts the new ones, and some exporters take long to
// stop.
const keepUnused = time.Minute

// A Shareable is a [Cache], or a value that has one. Its methods behave like those of a cache.
type Shareable interface {
	LogTo(logger *zap.Logger)
	Stop()
}

// A Registry shares caches between users that ask for the same key. It starts a cache for the
// first user, and stops it a minute after the last one has released it, unless it was acquired
// again. The zero value is ready for use. A Registry is safe for concurrent use.
//
//	user A   ╞════════════╡
//	user B         ╞═══════════╡             ╞═════╡
//	cache    ╞═════════════════════════════════════════ one minute ══╡
type Registry[K comparable, S Shareable] struct {
	mu     sync.Mutex
	shared map[K]*lease[S]
}

// lease is a cache and the number of its users.
type lease[S Shareable] struct {
	cache S
	users int
	turn  int // how often the last user has released the cache
}

// Acquire returns the cache for key. If there is none, it calls start to start one, else further messages about the
// cache go to the logger. release must be called once, when the cache is no longer needed. It does not wait.
func (r *Registry[K, S]) Acquire(key K, logger *zap.Logger, start func() S) (cache S, release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.shared[key]
	if l == nil {
		l = &lease[S]{cache: start()}
		if r.shared == nil {
			r.shared = make(map[K]*lease[S])
		}
		r.shared[key] = l
	} else {
		l.cache.LogTo(logger)
	}
	l.users++
	return l.cache, func() { r.release(l) }
}

func (r *Registry[K, S]) release(l *lease[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.turn++
	turn := l.turn
	time.AfterFunc(keepUnused, func() {
		r.stop(func(unused *lease[S]) bool { return unused == l && l.turn == turn })
	})
}

// StopUnused stops all caches without users at once, and waits until they have stopped. Tests that look for leaked
// goroutines need it.
func (r *Registry[K, S]) StopUnused() {
	r.stop(func(*lease[S]) bool { return true })
}

// stop stops the unused caches that is selects.
func (r *Registry[K, S]) stop(is func(unused *lease[S]) bool) {
	for _, cache := range r.forget(is) {
		cache.Stop()
	}
}

// forget removes these caches from the registry, and returns them.
func (r *Registry[K, S]) forget(is func(unused *lease[S]) bool) (caches []S) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, l := range r.shared {
		if l.users == 0 && is(l) {
			delete(r.shared, key)
			caches = append(caches, l.cache)
		}
	}
	return caches
}
