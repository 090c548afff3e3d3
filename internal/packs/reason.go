// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// Reason is why a pack is not used.
type Reason uint8

// The reasons.
const (
	NotFound   Reason = iota // neither in the directory nor at the URL
	BuildID                  // it is another build's
	Damaged                  // not a pack, cut off, or malformed
	Version                  // of another version of the format
	TooLarge                 // for the memory that packs may take together, or to be fetched
	NoRoom                   // in that memory, as all of it is in use
	Unreadable               // not a regular file, or one that cannot be read
	Insecure                 // others than its owner can write to it
	Fetch                    // the server cannot be reached, or gives no answer that is one
	NumReasons = iota
)

// String returns the reason's name in metrics.
func (r Reason) String() string {
	return [NumReasons]string{
		"not_found", "build_id", "damaged", "version", "too_large", "no_room", "unreadable", "insecure", "fetch",
	}[r]
}

// place is where packs come from.
type place uint8

const (
	placeDirectory place = iota
	placeURL
	numPlaces = iota
)

// A refusal is why a pack is not used.
type refusal struct {
	reason Reason
	broken bool // it is not about the pack, but about the place where it was looked for
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// refuse returns an error for a pack.
func refuse(reason Reason, err error) error { return &refusal{reason: reason, err: err} }

// refuseAll returns an error for all packs of a place.
func refuseAll(reason Reason, err error) error {
	return &refusal{reason: reason, broken: true, err: err}
}

var errNotFound = refuse(NotFound, errors.New("no pack"))

// refusalOf returns the refusal that an error is.
func refusalOf(err error) *refusal {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, pack.ErrVersion):
		return &refusal{reason: Version, err: err}
	case errors.Is(err, pack.ErrFormat), errors.Is(err, pack.ErrDamaged):
		return &refusal{reason: Damaged, err: err}
	}
	return &refusal{reason: Unreadable, err: err}
}

func isNotFound(err error) bool { return err != nil && refusalOf(err).reason == NotFound }

// health returns what is wrong, nil if nothing is. That there is no pack is not wrong.
func (s *state) health() error {
	for _, err := range append(s.broken[:], s.unkept) {
		if err != nil {
			return err
		}
	}
	var problems []string
	for _, wish := range s.wishes {
		if wish.problem != nil {
			problems = append(problems, wish.problem.Error())
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
