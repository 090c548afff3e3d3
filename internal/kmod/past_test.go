package kmod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestPastIsForgotten: when it is too old, and when it is too much.
func TestPastIsForgotten(t *testing.T) {
	for name, history := range map[string]symtab.History{
		"too old":  {TTL: 30 * time.Millisecond, MaxEntries: 10},
		"too many": {TTL: time.Hour, MaxEntries: 1},
		"none":     {},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			s := k.source()
			s.history = history
			known := newKnown(s)
			known.step(t, nil)
			var inA int64
			for range 2 {
				k.sysfs("a", "\xaa\xaa\xaa\xaa", sections{".text": place})
				k.write("proc/kallsyms", core+"ffffffffc0200000 t in_a\t[a]\n")
				k.write("proc/modules", aLine)
				known.step(t, map[string]heard{"a": {added: now()}})
				if inA == 0 {
					inA = pause()
				}
				k.write("proc/modules", "")
				known.step(t, map[string]heard{"a": {removed: now()}})
			}
			time.Sleep(40 * time.Millisecond)
			_, err := known.refresh(t.Context(), func() {})
			require.NoError(t, err)
			table := known.table()
			assert.Equal(t, history.MaxEntries%10, table.History())
			assert.Empty(t, moduleAt(table, inA))
			assert.True(t, symtab.NewSnapshot(table).Expired(place, symtab.Instant(inA)))
		})
	}
}

// TestSomethingLooksWhenThePastExpires: no event comes for that.
func TestSomethingLooksWhenThePastExpires(t *testing.T) {
	var p past
	assert.Zero(t, p.next(now()))
	p.history = symtab.History{TTL: time.Minute, MaxEntries: 1}
	m := new(symtab.Module).Lived(symtab.Interval{From: 0, To: now()}, symtab.Slack{})
	p.add(m)
	assert.InDelta(t, time.Minute, p.next(now()), float64(time.Second))
	assert.Equal(t, time.Second, p.next(now()+int64(time.Hour)))
}

// TestPastIsAsUncertainAsBefore: two modules were in one place, one after the other,
// and were looked at once a second. In between it can be either, whether the first is
// remembered or not.
func TestPastIsAsUncertainAsBefore(t *testing.T) {
	const s, addr = int64(time.Second), uint64(0xffffffffc0000000)
	module := func(name string, valid symtab.Interval, slack symtab.Slack) *symtab.Module {
		var sorter symtab.Sorter
		sorter.Add(addr, 't', []byte(name))
		m, err := sorter.Build(symtab.ModuleInfo{
			Name: name, Origin: symtab.OriginModule, Base: addr, Start: addr, End: addr + 0x1000, Valid: valid, Slack: slack,
		})
		require.NoError(t, err)
		return m
	}
	one := module("one", symtab.Interval{From: 10 * s, To: 100 * s}, symtab.NewSlack(0, time.Second))
	two := module("two", symtab.Since(101*s), symtab.NewSlack(time.Second, 0))
	for _, entries := range []int{1000, 0} {
		p := past{history: symtab.History{TTL: 10 * time.Minute, MaxEntries: entries}}
		p.add(one)
		p.expire(102 * s)
		table := symtab.NewTableWith(append([]*symtab.Module{two}, p.modules...), p.forgotten)
		_, ok := symtab.NewSnapshot(table).Lookup(addr+0x10, symtab.Instant(100*s+s/3))
		assert.False(t, ok, "with a history of %d", entries)
	}
}
