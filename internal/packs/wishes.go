// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"cmp"
	"slices"
	"time"
)

// maxWishes is how many wishes are kept. Senders of profiles can make up build ids.
const maxWishes = 1024

// How long to wait before a failed wish is tried again, or the file of an open pack is checked
// again, if the build is still in use.
const (
	lookAgain  = time.Minute      // in the directory
	fetchAgain = 10 * time.Minute // by the URL
)

// A step says what a wish waits for.
type step uint8

const (
	stepNone  step = iota // for time to pass
	stepLook              // to be looked for
	stepFetch             // to be fetched
	stepBusy              // for the end of one of these
)

// stepAt is the step in which a wish waits for a place.
var stepAt = [numPlaces]step{placeDirectory: stepLook, placeURL: stepFetch}

// A wishID is a build id, or a file ID of a build whose id is not known.
type wishID struct {
	text   string
	isFile bool
}

// A wish is a build in use that has no open pack, or whose file must be checked again.
type wish struct {
	step    step
	asked   int       // how often it was asked for since the last step
	hosts   []string  // some of those that asked for it, the first one among them
	since   uint64    // the turn in which it began to wait for its step
	look    time.Time // do not look before this time
	fetch   time.Time // do not fetch before this time
	used    time.Time // when it was last asked for
	problem error     // problem with its pack; nil if the pack is merely missing
}

// maxHosts is how many hosts of a wish are remembered.
const maxHosts = 4

// isConfirmed reports whether messages from several hosts had the build.
func (w *wish) isConfirmed() bool { return len(w.hosts) > 1 }

// wishes has at most maxWishes wishes. Senders can make up builds, so their hosts are served in turn. In its turn, a host
// gets what others asked for as well, and then what it asked for most often.
type wishes struct {
	all   map[wishID]*wish
	held  map[string]int // how many wishes a host asked for first
	turns [numPlaces]turns
}

func newWishes() wishes { return wishes{all: make(map[wishID]*wish), held: make(map[string]int)} }

// add records that a host uses a build, and reports whether to look for its pack now. If there are too many wishes, it
// replaces another: a build that is in use will be added again.
func (w *wishes) add(host string, id wishID, now time.Time) bool {
	found := w.all[id]
	if found == nil {
		if len(w.all) >= maxWishes {
			w.drop()
		}
		found = new(wish)
		w.all[id] = found
		w.held[host]++
	}
	found.askedBy(host)
	found.asked++
	found.used = now
	if found.step != stepNone || now.Before(found.look) {
		return false
	}
	w.queue(found, placeDirectory)
	return true
}

// queue lets a wish wait for a place.
func (w *wishes) queue(wish *wish, at place) {
	wish.step, wish.since = stepAt[at], w.turns[at].n
}

// askedBy records a host, if there is room.
func (w *wish) askedBy(host string) {
	if len(w.hosts) < maxHosts && !slices.Contains(w.hosts, host) {
		w.hosts = append(w.hosts, host)
	}
}

// remove removes a wish.
func (w *wishes) remove(id wishID) {
	first := w.all[id].hosts[0]
	if w.held[first]--; w.held[first] == 0 {
		delete(w.held, first)
	}
	delete(w.all, id)
}

// drop drops a wish that is not busy, among a few chosen at random: one that no other host confirmed, of the host that
// asked for most others, and the one that was asked for least. So made-up builds rarely replace builds in use.
func (w *wishes) drop() {
	const few = 8
	var victim wishID
	n := 0
	for id, other := range w.all { // in random order
		if other.step == stepBusy {
			continue
		}
		if n++; n == 1 || w.compareVictims(other, w.all[victim]) < 0 {
			victim = id
		}
		if n == few {
			break
		}
	}
	if n > 0 {
		w.remove(victim)
	}
}

// compareVictims compares which of two wishes is dropped first.
func (w *wishes) compareVictims(a, b *wish) int {
	if a.isConfirmed() != b.isConfirmed() {
		if b.isConfirmed() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(w.held[b.hosts[0]], w.held[a.hosts[0]]), cmp.Compare(a.asked, b.asked))
}

// wait reports whether a wish waits for a place.
func (w *wishes) wait(at place) bool {
	for _, wish := range w.all {
		if wish.step == stepAt[at] {
			return true
		}
	}
	return false
}

// next returns the wish that is the next to be looked for in a place, and marks it as busy. more reports whether others
// wait.
func (w *wishes) next(at place) (id wishID, more bool) {
	n := 0
	var first turn
	var whose string
	for other, wish := range w.all {
		if wish.step != stepAt[at] {
			continue
		}
		turn, host := w.turns[at].of(wish)
		if n++; n == 1 || turn.compare(first) < 0 {
			id, first, whose = other, turn, host
		}
	}
	if n > 0 {
		w.turns[at].take(whose)
		w.all[id].step, w.all[id].asked = stepBusy, 0
	}
	return id, n > 1
}
