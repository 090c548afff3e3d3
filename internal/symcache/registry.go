package symcache

import "sync"

// A Registry shares caches between those that want the same: it starts a cache
// for the first that asks for its key, and stops it after the last one has
// released it. Its zero value is ready for use, and it is safe for concurrent
// use.
type Registry[K comparable] struct {
	mu     sync.Mutex
	shared map[K]*lease
}

type lease struct {
	cache *Cache
	users int
}

// Acquire returns the cache for key, which it starts by calling start if there
// is none. release must be called once, when the cache is no longer needed; it
// waits until a cache that it stops has stopped.
func (r *Registry[K]) Acquire(key K, start func() *Cache) (cache *Cache, release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.shared[key]
	if l == nil {
		l = &lease{cache: start()}
		if r.shared == nil {
			r.shared = make(map[K]*lease)
		}
		r.shared[key] = l
	}
	l.users++
	return l.cache, func() { r.release(key, l) }
}

func (r *Registry[K]) release(key K, l *lease) {
	r.mu.Lock()
	l.users--
	last := l.users == 0
	if last {
		delete(r.shared, key)
	}
	r.mu.Unlock()
	if last {
		l.cache.Stop()
	}
}
