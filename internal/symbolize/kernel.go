// SPDX-License-Identifier: Apache-2.0

package symbolize

import "github.com/kernelsym/kernelsym/internal/timeline"

// A Kernel answers questions about the frames of one message, from one snapshot. It is not safe for
// concurrent use.
type Kernel struct {
	snapshot *timeline.Snapshot
	load     func() *timeline.Snapshot // not yet called; else nil
	gateway  bool
	absolute absolute
	last     timeline.Hit // the last symbol of the core kernel that was found: look-ups in one function often follow each other
}

// absolute says whether absolute addresses mean something (see contract 2.6).
type absolute uint8

const (
	absoluteAlways        absolute = iota
	absoluteUnlessLocated          // not if the core kernel is known only because it was located
	absoluteNever
)

// New returns a Kernel that asks for its snapshot at most once, when it needs it first. load may be nil.
func New(load func() *timeline.Snapshot) Kernel { return Kernel{load: load} }

// NewGuessed returns a Kernel like New's, for a sender that may be guessing. What it answers does not depend on where a
// kernel is that was located; if relative is true, it does not depend on where any code is loaded (see contract 2.6).
func NewGuessed(load func() *timeline.Snapshot, relative bool) Kernel {
	k := Kernel{load: load, absolute: absoluteUnlessLocated}
	if relative {
		k.absolute = absoluteNever
	}
	return k
}

// NewGateway returns a Kernel that stands for all kernels whose packs a snapshot has (see contract 10.2); see
// [timeline.NewPackSnapshot].
func NewGateway(load func() *timeline.Snapshot) Kernel {
	return Kernel{load: load, gateway: true, absolute: absoluteNever}
}

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

// readsAbsolute reports whether absolute addresses mean something.
func (k *Kernel) readsAbsolute() bool {
	switch k.absolute {
	case absoluteAlways:
		return true
	case absoluteUnlessLocated:
		return !k.Snapshot().IsLocated()
	}
	return false
}
