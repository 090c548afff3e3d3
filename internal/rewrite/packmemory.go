// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"math"
	"weak"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// packMemory is what packs said of addresses. It is kept from one message to the next, which
// have most addresses in common, as long as the packs are the same. It keeps neither packs
// nor images alive.
type packMemory struct {
	of     weak.Pointer[pack.Set]
	images map[weak.Pointer[timeline.Image]]uint32 // their numbers

	answers   []rememberedAnswer
	byAddress index
	functions packFunctions
	chains    chains
}

// packAddress is a pack address in an image.
type packAddress struct{ image, addr uint32 }

// packAnswer is what a pack said: the number of a chain, noChain if it is none, and what that
// is.
type packAnswer struct {
	chain  int32
	result PackResult
}

type rememberedAnswer struct {
	packAddress
	packAnswer
}

// Above one of these, the memory is forgotten before the next message.
const (
	maxAnswers   = 1 << 16
	maxPackLines = 1 << 18
)

// begin begins a message.
func (m *packMemory) begin(packs *pack.Set) {
	of := weak.Make(packs)
	if m.of != of || len(m.answers) > maxAnswers || len(m.chains.lines) > maxPackLines || m.functions.message == math.MaxUint32 {
		m.of, m.functions.message = of, 0
		clear(m.images)
		m.answers, m.byAddress.built = m.answers[:0], false
		m.functions.reset()
		m.chains.reset()
	}
	m.functions.message++
}

func (m *packMemory) bytes() int {
	return bytesOf(m.answers) + m.byAddress.bytes() + m.functions.bytes() + m.chains.bytes()
}

// number returns the number of an image.
func (m *packMemory) number(image *timeline.Image) uint32 {
	key := weak.Make(image)
	number, ok := m.images[key]
	if !ok {
		if m.images == nil {
			m.images = make(map[weak.Pointer[timeline.Image]]uint32)
		}
		number = uint32(len(m.images))
		m.images[key] = number
	}
	return number
}

func (a packAddress) hash() uint64 { return mix(uint64(a.image)<<32|uint64(a.addr), 0) }

// find returns what was said of an address, if it is known.
func (m *packMemory) find(at packAddress) (answer packAnswer, ok bool) {
	if !m.byAddress.built {
		m.byAddress.reset(0)
	}
	pos, ok := m.byAddress.find(at.hash(), func(pos int32) bool { return m.answers[pos].packAddress == at })
	if !ok {
		return packAnswer{}, false
	}
	return m.answers[pos].packAnswer, true
}

// add adds what was said of an address that is not known.
func (m *packMemory) add(at packAddress, answer packAnswer) {
	m.byAddress.addNew(at.hash(), int32(len(m.answers)))
	m.answers = append(m.answers, rememberedAnswer{at, answer})
}
