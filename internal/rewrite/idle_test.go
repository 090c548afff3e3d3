// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestIdleMemory verifies what is kept between messages (contract 6.1).
func TestIdleMemory(t *testing.T) {
	const mib = 1 << 20
	// use stands for a message that needs some memory, some of it for splits.
	use := func(i *idlePasses, split, rest int) *pass {
		p := i.take()
		p.needed = split + rest
		p.memory = footprint{max(p.memory.split, split), max(p.memory.rest, rest)}
		i.keep(p)
		return p
	}

	t.Run("the memory of a message is used again", func(t *testing.T) {
		var i idlePasses
		first := use(&i, 0, 10*mib)
		assert.Same(t, first, use(&i, 0, 10*mib))
	})
	t.Run("also that of a large one", func(t *testing.T) {
		var i idlePasses
		first := use(&i, 0, 200*mib)
		assert.Same(t, first, use(&i, 0, 200*mib))
		for range afterLarge {
			assert.Same(t, first, use(&i, 0, mib))
		}
		assert.Same(t, first, use(&i, 0, 200*mib), "small messages in between")
	})
	t.Run("until large ones no longer come", func(t *testing.T) {
		var i idlePasses
		use(&i, 0, 200*mib)
		for range afterLarge {
			use(&i, 0, mib)
		}
		assert.Equal(t, 200*mib, i.memory())
		use(&i, 0, mib)
		assert.Zero(t, i.memory())
	})
	t.Run("not that of an even larger one", func(t *testing.T) {
		var i idlePasses
		use(&i, 0, 257*mib)
		assert.Zero(t, i.memory())
	})
	t.Run("nor that of a large one where memory is short", func(t *testing.T) {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(400 * mib))
		var i idlePasses
		use(&i, 0, 65*mib)
		assert.Zero(t, i.memory())
		use(&i, 0, 64*mib)
		assert.Equal(t, 64*mib, i.memory())
	})
	t.Run("memory for splits goes first", func(t *testing.T) {
		var i idlePasses
		first := use(&i, 200*mib, 60*mib)
		assert.Equal(t, 60*mib, i.memory())
		assert.Same(t, first, use(&i, 0, mib))
	})
	t.Run("passes at the same time share the limit", func(t *testing.T) {
		var i idlePasses
		a, b := i.take(), i.take()
		a.memory.rest, b.memory.rest = 40*mib, 30*mib
		i.keep(a)
		i.keep(b)
		assert.Equal(t, []*pass{b}, i.passes)
	})
	t.Run("there are not more than a few", func(t *testing.T) {
		var i idlePasses
		for range maxIdle + 1 {
			i.keep(new(pass))
		}
		assert.Len(t, i.passes, maxIdle)
	})
}
