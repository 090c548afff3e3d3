// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"sync"
)

// A queue gives turns to requests. The next turn goes to the host that has the fewest or, if several do, to the request that
// came first. It matters how many turns a host has, not how many it had, because it can keep one for a long time.
type queue struct {
	mu      sync.Mutex
	turns   share
	places  share
	waiting []*ticket // in order of arrival; each has a place, and other places are reserved
}

// A ticket is a request that waits.
type ticket struct {
	host string
	turn chan struct{} // closed when it has its turn
}

func newQueue(turns, places int) *queue {
	return &queue{turns: newShare(turns), places: newShare(places)}
}

// reserve takes a place for a request of a host. It returns false if the host may have no more.
func (q *queue) reserve(host string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.places.allows(host) {
		return false
	}
	q.places.take(host)
	return true
}

// reserveAnyway takes a place for a request that cannot be refused any more.
func (q *queue) reserveAnyway(host string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.places.take(host)
}

// giveUp gives back a place in which no request waits.
func (q *queue) giveUp(host string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.places.giveBack(host)
}

// wait has a request wait, in a place of its host, for its turn. The turn ends with end.
func (q *queue) wait(host string) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &ticket{host: host, turn: make(chan struct{})}
	q.waiting = append(q.waiting, t)
	q.giveTurns()
	return t
}

// quit has a request wait no longer. It returns false if the request has its turn already.
func (q *queue) quit(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, t)
	if i < 0 {
		return false
	}
	q.remove(i)
	return true
}

// end ends a turn of a host.
func (q *queue) end(host string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turns.giveBack(host)
	q.giveTurns()
}

// giveTurns gives the turns that are left to requests that wait.
func (q *queue) giveTurns() {
	for len(q.waiting) > 0 {
		next := 0
		for i, t := range q.waiting {
			if q.turns.taken[t.host] < q.turns.taken[q.waiting[next].host] {
				next = i
			}
		}
		t := q.waiting[next]
		if !q.turns.allows(t.host) {
			return
		}
		q.turns.take(t.host)
		q.remove(next)
		close(t.turn)
	}
}

// remove removes a request that waits, by its index.
func (q *queue) remove(i int) {
	q.places.giveBack(q.waiting[i].host)
	q.waiting = slices.Delete(q.waiting, i, i+1)
}

// A share divides a number of things, at least three, among hosts. A host may take one more while it has fewer than twice as
// many as are left: it can have most of them while no other host wants any, but not all.
type share struct {
	left  int
	taken map[string]int // by host; without zeros
}

func newShare(n int) share { return share{left: n, taken: make(map[string]int)} }

// allows reports whether a host may have one more.
func (s *share) allows(host string) bool { return s.taken[host] < 2*s.left }

func (s *share) take(host string) {
	s.left--
	s.taken[host]++
}

func (s *share) giveBack(host string) {
	s.left++
	if s.taken[host]--; s.taken[host] == 0 {
		delete(s.taken, host)
	}
}
