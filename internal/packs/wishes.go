// SPDX-License-Identifier: Apache-2.0

package packs

import "time"

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
	look    time.Time // do not look before this time
	fetch   time.Time // do not fetch before this time
	used    time.Time // when it was last asked for
	problem error     // problem with its pack; nil if the pack is merely missing
}

// wishes has at most maxWishes entries.
type wishes map[wishID]*wish

// add records that a build is in use, and reports whether to look for its pack now. If there
// are too many wishes, it replaces another: a build that is in use will be added again.
func (w wishes) add(id wishID, now time.Time) bool {
	found := w[id]
	if found == nil {
		if len(w) >= maxWishes {
			w.drop()
		}
		found = new(wish)
		w[id] = found
	}
	found.asked++
	found.used = now
	if found.step != stepNone || now.Before(found.look) {
		return false
	}
	found.step = stepLook
	return true
}

// drop drops a wish that is not busy: the one that was asked for least, among a few chosen at
// random. So made-up builds rarely replace builds in use.
func (w wishes) drop() {
	const few = 8
	var least wishID
	n := 0
	for id, other := range w { // in random order
		if other.step == stepBusy {
			continue
		}
		if n++; n == 1 || other.asked < w[least].asked {
			least = id
		}
		if n == few {
			break
		}
	}
	if n > 0 {
		delete(w, least)
	}
}

// wait reports whether a wish waits for a step.
func (w wishes) wait(of step) bool {
	for _, wish := range w {
		if wish.step == of {
			return true
		}
	}
	return false
}

// next returns the wish that waits for a step and was asked for most often, so that made-up
// builds do not keep others waiting. It marks the wish as busy. more reports whether others
// wait.
func (w wishes) next(of step) (id wishID, more bool) {
	n := 0
	for other, wish := range w {
		if wish.step != of {
			continue
		}
		if n++; n == 1 || wish.asked > w[id].asked {
			id = other
		}
	}
	if n > 0 {
		w[id].step, w[id].asked = stepBusy, 0
	}
	return id, n > 1
}
