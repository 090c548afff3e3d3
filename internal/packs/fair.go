// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"cmp"
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
// A user has waited since its last turn, but not longer than the item has. Otherwise users that never had a turn, of
// whom there can be any number, would come before all others.
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
	var since uint64
	var user string
	for k, d := range q.waiting {
		at, u := q.longest(d)
		if next == nil || cmp.Or(
			cmp.Compare(at, since), cmp.Compare(len(next.users), len(d.users)), cmp.Compare(next.asked, d.asked),
		) < 0 {
			key, next, since, user = k, d, at, u
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

// longest returns the user of an item that has waited longest, and since which turn.
func (q *fairQueue[K]) longest(d *demand) (since uint64, user string) {
	user = slices.MinFunc(d.users, func(a, b string) int { return cmp.Compare(q.last[a], q.last[b]) })
	return max(q.last[user], d.since), user
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
