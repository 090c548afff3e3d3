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
