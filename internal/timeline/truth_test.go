// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kernel is what really happens: programs come and go, announced or not, records of them are lost,
// and lists show the loaded programs. Its history records what a source would.
type kernel struct {
	*rand.Rand
	now     int64
	loads   []*truth
	nextID  uint32
	pending []record // not read yet
	lost    bool     // records were lost since then

	h      *Builder
	last   int64 // when the ring was last emptied
	listed bool
}

// truth is a program as it really was. Classic BPF is never announced.
type truth struct {
	id         uint32
	start, end uint64
	from, to   int64
	classic    bool
}

type record struct {
	at   int64
	what *truth
	gone bool
}

func (k *kernel) there() (there []*truth) {
	for _, p := range k.loads {
		if p.to == Forever {
			there = append(there, p)
		}
	}
	return there
}

// step unloads a program, or loads one if its address is free.
func (k *kernel) step() {
	k.now += 1 + k.Int64N(4*ms)
	there := k.there()
	if len(there) > 0 && k.IntN(2) == 0 {
		p := there[k.IntN(len(there))]
		p.to = k.now
		k.record(record{k.now, p, true})
		return
	}
	k.nextID++
	p := &truth{id: k.nextID, start: 0x1000 + 64*k.Uint64N(12), from: k.now, to: Forever, classic: k.IntN(4) == 0}
	p.end = p.start + 1 + k.Uint64N(128)
	if slices.ContainsFunc(there, func(o *truth) bool { return o.start < p.end && p.start < o.end }) {
		return
	}
	k.loads = append(k.loads, p)
	k.record(record{k.now, p, false})
}

func (k *kernel) record(r record) {
	if r.what.classic || k.lost {
		return
	}
	if k.lost = k.IntN(60) == 0; !k.lost { // lost means that the ring is full
		k.pending = append(k.pending, r)
	}
}

// read empties the ring. If records were lost, it lists the loaded programs.
func (k *kernel) read() {
	for _, r := range k.pending {
		m := k.h.At(r.what.start)
		switch {
		case !r.gone:
			k.load(r.what, r.at)
		case m != nil && m.Program.ID == r.what.id:
			k.h.Unload(m, r.at)
		}
		k.last = r.at
	}
	k.pending = nil
	if k.lost || !k.listed {
		k.list()
	}
	k.last, k.lost = k.now, false
	k.h.SetCertain(k.now)
	k.h.Evict(k.now)
}

func (k *kernel) list() {
	blind := Interval{From: k.last, To: k.now}
	if !k.listed {
		k.listed, blind.From = true, Always.From
	}
	k.h.AddBlind(blind)
	there := k.there()
	for _, m := range k.h.Loaded() {
		if !slices.ContainsFunc(there, func(p *truth) bool { return p.id == m.Program.ID }) {
			k.h.Unload(m, k.last)
		}
	}
	for _, p := range there {
		if m := k.h.At(p.start); !p.classic && (m == nil || m.Program.ID != p.id) {
			k.load(p, k.now)
		}
	}
}

func (k *kernel) load(p *truth, since int64) {
	k.h.Load(bpf(fmt.Sprint("p", p.id), p.start, uint32(p.end-p.start), since).WithProgram(&Program{ID: p.id}, nil))
}

// TestNothingIsNamedOutsideItsTime verifies every name against what was really loaded, while
// programs come and go, some of them unseen.
func TestNothingIsNamedOutsideItsTime(t *testing.T) {
	named, right, asked := 0, 0, 0
	for seed := range uint64(rounds(1000)) {
		k := &kernel{Rand: rand.New(rand.NewPCG(seed, 2)), now: 1000 * ms}
		k.h = NewBuilder(Limits{TTL: time.Duration(1+k.IntN(2000)) * time.Millisecond, MaxEntries: 1 + k.IntN(100)})
		k.last = k.now
		for range 150 {
			k.step()
			if k.IntN(4) == 0 {
				k.read()
			}
		}
		k.read()
		s := NewSnapshot(k.h.Table())
		for range 400 {
			from := k.now - k.Int64N(k.now-990*ms)
			during := Interval{from, from + 1 + k.Int64N([]int64{1, 20 * ms}[k.IntN(2)])}
			addr := 0x1000 + k.Uint64N(64*14)
			i := slices.IndexFunc(k.loads, func(p *truth) bool {
				return p.start <= addr && addr < p.end && p.from <= during.From && during.To <= min(p.to, k.now)
			})
			hit, _ := s.At(addr, during)
			if i >= 0 && !k.loads[i].classic {
				asked++
			}
			if hit.Image == nil {
				continue
			}
			named++
			require.GreaterOrEqual(t, i, 0, "seed %d: %#x in %v had no owner and is named %s", seed, addr, during, hit.Image.Name())
			require.Equal(t, k.loads[i].id, hit.Image.Program.ID, "seed %d: %#x in %v", seed, addr, during)
			require.False(t, k.loads[i].classic)
			right++
		}
	}
	require.Greater(t, right, asked/4, "of %d lookups in loaded programs", asked)
	require.Equal(t, named, right)
}
