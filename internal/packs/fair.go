// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"cmp"
	"math"
	"slices"
)

// A fairQueue serves users in turn, however many items each of them asks for. It is the turn of the user that has waited
// longest. Of this user's items, those that more users ask for come first, and then those that were asked for most often.
//
//	A asks for  a a' c
//	B asks for         b c
//	served                 c  b  a  a'
//	turn of                A  B  A  A
//
// A user has waited since its last turn, but not longer than its oldest item has. Otherwise users that never had a turn, of
// whom there can be any number, would come before all others. If several have waited equally long, it is the turn of the
// one whose item comes first.
type fairQueue[K comparable] struct {
	waiting map[K]*demand
	turns   uint64            // number of items served
	last    map[string]uint64 // the last turn of each user
	ready   signal            // an item was added
}

// maxLast limits the users whose last turns a fairQueue remembers. When there are more, all are equal again.
const maxLast = 4096

// A demand is the users' interest in one item.
type demand struct {
	users []string // the first user that asked, and some others
	asked int      // number of times since the item was last served
	since uint64   // number of turns when the item was added to the queue
}

// maxUsers limits the users that a demand remembers.
const maxUsers = 4

func newFairQueue[K comparable]() fairQueue[K] {
	return fairQueue[K]{waiting: make(map[K]*demand), last: make(map[string]uint64), ready: newSignal()}
}

// add records that a user asks for the item.
func (d *demand) add(user string) {
	d.asked++
	if len(d.users) < maxUsers && !slices.Contains(d.users, user) {
		d.users = append(d.users, user)
	}
}

// push adds an item, which at least one user has asked for.
func (q *fairQueue[K]) push(key K, d *demand) {
	d.since = q.turns
	q.waiting[key] = d
	q.ready.wake()
}

// remove removes an item, if it waits.
func (q *fairQueue[K]) remove(key K) { delete(q.waiting, key) }

// pop removes the next item. It returns false if there is none.
func (q *fairQueue[K]) pop() (key K, ok bool) {
	var next *demand
	var user string
	users := q.longestWaiting()
	for k, d := range q.waiting {
		i := slices.IndexFunc(d.users, func(u string) bool { return users[u] })
		if i >= 0 && (next == nil || d.isBefore(next)) {
			key, next, user = k, d, d.users[i]
		}
	}
	if next == nil {
		return key, false
	}
	next.asked = 0
	q.remove(key)
	q.recordTurn(user)
	return key, true
}

// longestWaiting returns the users that have waited longest.
func (q *fairQueue[K]) longestWaiting() map[string]bool {
	users := make(map[string]bool)
	longest := uint64(math.MaxUint64)
	for _, d := range q.waiting {
		for _, user := range d.users {
			since := max(q.last[user], d.since)
			if since < longest {
				longest = since
				clear(users)
			}
			if since == longest {
				users[user] = true
			}
		}
	}
	return users
}

// isBefore reports whether an item comes before another in a user's turn: more users ask for it or, if that is equal, it
// was asked for more often or has waited longer.
func (d *demand) isBefore(other *demand) bool {
	return cmp.Or(
		cmp.Compare(len(other.users), len(d.users)), cmp.Compare(other.asked, d.asked), cmp.Compare(d.since, other.since),
	) < 0
}

// recordTurn records that a user has had a turn.
func (q *fairQueue[K]) recordTurn(user string) {
	if len(q.last) >= maxLast {
		clear(q.last)
	}
	q.turns++
	q.last[user] = q.turns
}

// A signal wakes a goroutine. It has an element if something has happened since the goroutine last received from it.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// wake wakes a goroutine that waits or, if there is none, the next one that does.
func (s signal) wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}
