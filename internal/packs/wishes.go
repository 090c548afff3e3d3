// SPDX-License-Identifier: Apache-2.0

package packs

import "time"

// maxWishes is how many wishes are kept. Whoever sends profiles can make some up.
const maxWishes = 1024

// When a wish that was not granted is tried again, and an open pack's file is looked at again,
// if the build is in use then.
const (
	lookAgain  = time.Minute      // in the directory
	fetchAgain = 10 * time.Minute // by the URL
)

// step is what a wish waits for.
type step uint8

const (
	stepNone  step = iota // for time to pass
	stepLook              // to be looked for
	stepFetch             // to be fetched
	stepBusy              // for the end of one of these
)

// stepAt is what a wish waits for that is to be looked for in a place.
var stepAt = [numPlaces]step{placeDirectory: stepLook, placeURL: stepFetch}

// A wishID is a build id, or a file ID of a build whose id is not known.
type wishID struct {
	text   string
	isFile bool
}

// A wish is a build that is in use and of which no pack is open, or whose file is to be looked
// at again.
type wish struct {
	step    step
	asked   int       // how often, since the last step
	look    time.Time // not before that time
	fetch   time.Time // likewise
	used    time.Time // last
	problem error     // with its pack; nil if it is only not there
}

// wishes are at most maxWishes.
type wishes map[wishID]*wish

// add notes that a build is in use, and reports whether it is to be looked for now. If there
// are too many wishes, it takes the place of another: what is in use comes back.
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

// drop drops a wish that nobody is busy with: of any few, that which was asked for least, so that
// builds that are made up hardly take the place of those in use.
func (w wishes) drop() {
	const few = 8
	var least wishID
	n := 0
	for id, other := range w { // in any order
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

// next returns the wish that waits for a step and was asked for most often, so that builds
// that are made up do not keep others waiting. It is busy from then on. more reports
// whether others wait.
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
