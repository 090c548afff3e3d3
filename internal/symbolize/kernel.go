// SPDX-License-Identifier: Apache-2.0

package symbolize

import "github.com/kernelsym/kernelsym/internal/timeline"

// A Kernel answers questions about the frames of one message, from one snapshot. It is not safe for
// concurrent use.
type Kernel struct {
	snapshot *timeline.Snapshot
	load     func() *timeline.Snapshot // not yet called; else nil
	gateway  bool
	absolute bool // absolute addresses mean something
}

// New returns a Kernel that asks for its snapshot at most once, when it needs it first. load may be nil.
func New(load func() *timeline.Snapshot) Kernel { return Kernel{load: load, absolute: true} }

// NewRelative returns a Kernel like New's, for a sender that may be guessing: what it answers does not depend on where
// code is loaded (see contract 2.6).
func NewRelative(load func() *timeline.Snapshot) Kernel { return Kernel{load: load} }

// NewGateway returns a Kernel that stands for all kernels whose packs a snapshot has (see contract 10.2); see
// [timeline.NewPackSnapshot].
func NewGateway(load func() *timeline.Snapshot) Kernel { return Kernel{load: load, gateway: true} }

// Snapshot returns the snapshot that all answers come from.
func (k *Kernel) Snapshot() *timeline.Snapshot {
	if k.load != nil {
		k.snapshot, k.load = k.load(), nil
	}
	return k.snapshot
}

// lacksCore reports whether the symbols of the core kernel are not known. Then its entry code is not known
// either.
func (k *Kernel) lacksCore() bool { return !k.gateway && k.Snapshot().Core() == nil }
