// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// A Reason says why a pack is not used.
type Reason uint8

// The reasons.
const (
	NotFound   Reason = iota // neither in the directory nor at the URL
	BuildID                  // it is the pack of another build
	Damaged                  // not a pack, cut off, or malformed
	Version                  // of another version of the format
	TooLarge                 // larger than the memory for all packs, or than a response may be
	NoRoom                   // the packs in use leave too little memory
	Unreadable               // not a regular file, or one that cannot be read
	Insecure                 // others can write to it, or choose which file it is
	Fetch                    // the server cannot be reached, or gives no usable answer
	NumReasons = iota
)

// String returns the reason's name in metrics.
func (r Reason) String() string {
	return [NumReasons]string{
		"not_found", "build_id", "damaged", "version", "too_large", "no_room", "unreadable", "insecure", "fetch",
	}[r]
}

// A place is a source of packs.
type place uint8

const (
	placeDirectory place = iota
	placeURL
	numPlaces = iota
)

// A refusal says why a pack is not used.
type refusal struct {
	reason Reason
	broken bool // the place is at fault, not the pack
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// missed reports whether the answer was that there is no such pack.
func (r *refusal) missed() bool {
	return !r.broken && (r.reason == NotFound || r.reason == Fetch)
}

// refuse returns an error for a pack.
func refuse(reason Reason, err error) error { return &refusal{reason: reason, err: err} }

// refuseAll returns an error for all packs of a place.
func refuseAll(reason Reason, err error) error {
	return &refusal{reason: reason, broken: true, err: err}
}

var errNotFound = refuse(NotFound, errors.New("no pack"))

// refusalOf returns an error as a refusal.
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

// health returns the problem of the store, or nil if there is none. A missing pack is not a
// problem.
func (s *state) health() error {
	for _, err := range append(s.broken[:], s.unkept) {
		if err != nil {
			return err
		}
	}
	var problems []string
	for _, wish := range s.wishes.all {
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
