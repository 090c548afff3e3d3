// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxRequests limits the requests in a queue. Senders of profiles can make up build ids.
const maxRequests = 1024

// How long to wait before an origin is asked again for a pack, if the build is still in use. The first is also the time
// between two checks of the file of an open pack.
const (
	readAgain  = time.Minute
	fetchAgain = 10 * time.Minute
)

// A state says why a request is in the queue.
//
//	      add, if due            next               finish: found
//	held ─────────────► waiting ──────► taken ─────────────────────► gone
//	 ▲                     ▲              │
//	 │                     ├──────────────┤ finish: missing in the directory, or stopped
//	 └─────────────────────┴──────────────┘ otherwise, or if that origin is not due
//
// A request that is not taken can also be dropped, for lack of use or of room.
type state uint8

const (
	held    state = iota // until the build is used and the directory is due
	waiting              // until its turn at an origin
	taken                // until that origin has answered
	gone                 // it no longer is
)

// An origin is a source of packs.
type origin uint8

const (
	inDirectory origin = iota
	atURL
	numOrigins = iota
)

// An outcome says how the search for a pack at an origin has ended.
type outcome uint8

const (
	found       outcome = iota // the pack is open
	missing                    // the origin has no such pack
	refused                    // the pack is not used, or the origin refuses to give it
	broken                     // the origin can provide no packs at all
	stopped                    // there is no answer, because the store was stopped
	numOutcomes = iota
)

// A transition is what becomes of a request that was taken.
type transition struct {
	to    state
	at    origin // where it waits next
	pause pauses
}

// pauses are the times until the origins are due again. Zero changes nothing.
type pauses [numOrigins]time.Duration

var (
	aMinute    = pauses{inDirectory: readAgain} // also for the URL, as the directory comes first
	tenMinutes = pauses{inDirectory: readAgain, atURL: fetchAgain}
)

var transitions = [numOrigins][numOutcomes]transition{
	inDirectory: {
		found:   {to: gone},
		missing: {to: waiting, at: atURL, pause: aMinute}, // held, if the request is not for the URL
		refused: {to: held, pause: aMinute},
		broken:  {to: held, pause: aMinute},
		stopped: {to: waiting, at: inDirectory},
	},
	atURL: {
		found:   {to: gone},
		missing: {to: held, pause: tenMinutes},
		refused: {to: held, pause: tenMinutes},
		broken:  {to: held, pause: aMinute},
		stopped: {to: waiting, at: atURL},
	},
}

// A requestID is a build id, or a file ID of a build whose id is not known.
type requestID struct {
	text   string
	isFile bool
}

// A request is for the pack of a build in use that has no open pack, or whose file must be checked again.
type request struct {
	state     state
	notBefore [numOrigins]time.Time // when the origins are due
	demand    demand                // of hosts
	used      time.Time             // when the build was last used
	problem   error                 // why the pack is refused; nil if it is merely missing
}

// A queue holds requests. It is not safe for concurrent use.
type queue struct {
	hasURL   bool
	requests map[requestID]*request
	waiting  [numOrigins]fairQueue[requestID]
	firstOf  map[string]int    // number of requests that each host was the first to make
	broken   [numOrigins]error // why an origin can provide no packs at all
	refused  [NumReasons]int64 // number of packs
}

func newQueue(hasURL bool) queue {
	return queue{
		hasURL:   hasURL,
		requests: make(map[requestID]*request),
		waiting:  [numOrigins]fairQueue[requestID]{newFairQueue[requestID](), newFairQueue[requestID]()},
		firstOf:  make(map[string]int),
	}
}

// add records that a host uses a build. If there are too many requests, the new one replaces another: a build that is
// in use will be added again.
func (q *queue) add(host string, id requestID, now time.Time) {
	r := q.requests[id]
	if r == nil {
		if len(q.requests) >= maxRequests {
			q.drop()
		}
		r = new(request)
		q.requests[id] = r
		q.firstOf[host]++
	}
	r.demand.add(host)
	r.used = now
	if r.state == held {
		q.wait(id, inDirectory, now)
	}
}

// next takes the request whose turn it is at an origin. It returns false if none waits.
func (q *queue) next(at origin) (id requestID, ok bool) {
	if id, ok = q.waiting[at].pop(); ok {
		q.requests[id].state = taken
	}
	return id, ok
}

// finish ends a request's search at an origin with the error that [outcomeOf] understands. If the request is gone,
// finish returns the hosts that made it.
func (q *queue) finish(id requestID, at origin, err error, now time.Time) (hosts []string) {
	r := q.requests[id]
	outcome, reason := outcomeOf(err)
	then := transitions[at][outcome]
	for o, pause := range then.pause {
		if pause > 0 {
			r.notBefore[o] = now.Add(pause)
		}
	}
	if outcome != stopped {
		q.broken[at] = nil
	}
	switch {
	case then.to == gone:
		q.remove(id)
		return r.demand.users
	case then.to == waiting && q.isFor(id, then.at):
		q.wait(id, then.at, now)
		return nil
	}
	r.state, r.problem = held, nil
	q.refused[reason]++
	switch outcome {
	case refused:
		r.problem = err
	case broken:
		q.broken[at] = err
	}
	return nil
}

// isFor reports whether an origin can answer a request. A URL contains a build id.
func (q *queue) isFor(id requestID, at origin) bool {
	return at == inDirectory || q.hasURL && !id.isFile
}

// wait lets a request wait for its turn at an origin or, if that is not due, for time to pass.
func (q *queue) wait(id requestID, at origin, now time.Time) {
	r := q.requests[id]
	if now.Before(r.notBefore[at]) {
		r.state = held
		return
	}
	r.state = waiting
	q.waiting[at].push(id, &r.demand)
}

// search reports whether a pack is being searched for, and if not, why it was not found.
func (q *queue) search(id requestID) (is bool, err error) {
	r := q.requests[id]
	if r == nil {
		return false, errNotFound
	}
	return r.state == waiting || r.state == taken, cmp.Or(r.problem, q.broken[inDirectory], q.broken[atURL], errNotFound)
}

// forget drops the requests for builds that were not used for forgetAfter, except while an origin is not due: its answer
// counts until then (contract 10.3). If no request is left that would find out whether the URL is still broken, forget drops
// that error.
func (q *queue) forget(now time.Time) {
	builds := 0
	for id, r := range q.requests {
		isUsed := r.state == taken || !r.used.Before(now.Add(-forgetAfter))
		switch {
		case isUsed && !id.isFile:
			builds++
		case !isUsed && !slices.ContainsFunc(r.notBefore[:], now.Before):
			q.remove(id)
		}
	}
	if builds == 0 {
		q.broken[atURL] = nil
	}
}

// drop drops one of a few requests chosen at random: one of a single host, of the host that was the first to make most
// others, and the one that was made least often. So made-up builds rarely replace builds in use. Only a few requests
// can be taken, so there is one to drop.
func (q *queue) drop() {
	const few = 8
	candidates := make([]requestID, 0, few)
	for id, r := range q.requests { // in random order
		if r.state != taken {
			candidates = append(candidates, id)
		}
		if len(candidates) == few {
			break
		}
	}
	q.remove(slices.MinFunc(candidates, func(a, b requestID) int {
		d, other := &q.requests[a].demand, &q.requests[b].demand
		return cmp.Or(
			cmp.Compare(len(d.users), len(other.users)),
			cmp.Compare(q.firstOf[other.users[0]], q.firstOf[d.users[0]]),
			cmp.Compare(d.asked, other.asked),
		)
	}))
}

// remove removes a request, which is not taken or has ended.
func (q *queue) remove(id requestID) {
	host := q.requests[id].demand.users[0]
	if q.firstOf[host]--; q.firstOf[host] == 0 {
		delete(q.firstOf, host)
	}
	for at := range q.waiting {
		q.waiting[at].remove(id)
	}
	delete(q.requests, id)
}

// problem returns the problem of the packs that are refused, or nil if there is none. A missing pack is not a problem.
func (q *queue) problem() error {
	var problems []string
	for _, r := range q.requests {
		if r.problem != nil {
			problems = append(problems, r.problem.Error())
		}
	}
	if len(problems) == 0 {
		return nil
	}
	first := slices.Min(problems)
	if n := len(problems) - 1; n > 0 {
		return fmt.Errorf("%s; and %d other packs", first, n)
	}
	return errors.New(first)
}
