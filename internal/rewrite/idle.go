// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"cmp"
	"runtime/debug"
	"slices"
	"sync"
)

// idlePasses are passes that wait for a message, with the memory that they took for earlier ones (see contract 6.1).
// They are not in a sync.Pool: messages come every few seconds, and by the next one the pool would be empty.
// They are safe for concurrent use.
type idlePasses struct {
	mu     sync.Mutex
	passes []*pass
	large  int // the number of messages for which the limit is still maxLargeMemory
}

const (
	maxIdle        = 4         // passes
	maxMemory      = 64 << 20  // bytes of all of them together, roughly
	maxLargeMemory = 256 << 20 // the same, for some messages after one that took more than maxMemory; see largeLimit
	afterLarge     = 16        // messages
)

// take returns an idle pass, or a new one.
func (i *idlePasses) take() *pass {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.passes) - 1
	if last < 0 {
		return new(pass)
	}
	p := i.passes[last]
	i.passes = i.passes[:last]
	return p
}

// keep keeps a pass for later messages, within the limits.
func (i *idlePasses) keep(p *pass) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.passes) < maxIdle {
		i.passes = append(i.passes, p)
	}
	limit := maxMemory
	switch {
	case p.needed > maxMemory:
		i.large, limit = afterLarge, largeLimit()
	case i.large > 0:
		i.large--
		limit = largeLimit()
	}
	for i.memory() > limit {
		i.shrink()
	}
}

// largeLimit returns maxLargeMemory or, if that is less, an eighth of GOMEMLIMIT, which leaves room for messages.
func largeLimit() int {
	return int(max(maxMemory, min(maxLargeMemory, debug.SetMemoryLimit(-1)/8)))
}

// memory returns roughly what all passes take.
func (i *idlePasses) memory() (n int) {
	for _, p := range i.passes {
		n += p.memory.total()
	}
	return n
}

// shrink frees memory of the pass that takes most. That loses the memory for splits first, which few messages need.
func (i *idlePasses) shrink() {
	largest := slices.MaxFunc(i.passes, func(a, b *pass) int { return cmp.Compare(a.memory.total(), b.memory.total()) })
	if largest.memory.split > 0 {
		largest.choices, largest.split, largest.memory.split = chooser{}, splitter{}, 0
		return
	}
	i.passes = slices.DeleteFunc(i.passes, func(p *pass) bool { return p == largest })
}
