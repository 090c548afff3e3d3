// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"context"
	"errors"

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

// A refusal is the error of a search for a pack.
type refusal struct {
	outcome outcome
	reason  Reason
	err     error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// refuse returns an error for a pack.
func refuse(reason Reason, err error) error { return &refusal{refused, reason, err} }

// refuseAll returns an error for all packs of an origin.
func refuseAll(reason Reason, err error) error { return &refusal{broken, reason, err} }

var (
	errNotFound error = &refusal{missing, NotFound, errors.New("no pack")}
	errStopped  error = &refusal{stopped, Fetch, context.Canceled}
)

// outcomeOf returns what an error says about the search for a pack. The reason counts only if the error is not nil.
func outcomeOf(err error) (outcome, Reason) {
	var r *refusal
	switch {
	case err == nil:
		return found, NotFound
	case errors.As(err, &r):
		return r.outcome, r.reason
	case errors.Is(err, pack.ErrVersion):
		return refused, Version
	case errors.Is(err, pack.ErrFormat), errors.Is(err, pack.ErrDamaged):
		return refused, Damaged
	}
	return refused, Unreadable
}

// ReasonOf returns why [Read] or [Check] returned an error.
func ReasonOf(err error) Reason {
	_, reason := outcomeOf(err)
	return reason
}

func isNotFound(err error) bool { return err != nil && ReasonOf(err) == NotFound }
