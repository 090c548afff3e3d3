package kmod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

const (
	place = 0xffffffffc0200000
	aLine = "a 4096 0 - Live 0xffffffffc0200000\n"
	bLine = "b 4096 0 - Live 0xffffffffc0200000\n"
)

// step is a look at the modules, after what events told.
func (k *known) step(t *testing.T, events map[string]heard) {
	t.Helper()
	k.told(time.Now(), events)
	for k.since != (time.Time{}) { // until nothing is pending
		_, err := k.refresh(t.Context(), func() { k.table() })
		require.NoError(t, err)
	}
}

// pause lets time pass, in which clocks cannot be mistaken.
func pause() int64 {
	time.Sleep(12 * time.Millisecond)
	at := now()
	time.Sleep(12 * time.Millisecond)
	return at
}

// moduleAt names who had the place at some time.
func moduleAt(table *symtab.Table, at int64) string {
	sym, ok := table.Lookup(place+8, symtab.Instant(at))
	if !ok {
		return ""
	}
	return sym.Name().System
}

// TestModulesThatTakeEachOthersPlace: each is known for its time, by what events tell
// or, without them, by the looks.
func TestModulesThatTakeEachOthersPlace(t *testing.T) {
	for name, tells := range map[string]bool{"events tell": true, "nothing tells": false} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			s := k.source()
			s.history = symtab.History{TTL: time.Hour, MaxEntries: 10}
			known := newKnown(s)
			known.step(t, nil)
			hear := func(module string, h heard) map[string]heard {
				if !tells {
					return nil
				}
				return map[string]heard{module: h}
			}
			show := func(list, kallsyms, module, buildID string) {
				k.sysfs(module, buildID, sections{".text": place})
				k.write("proc/kallsyms", core+kallsyms)
				k.write("proc/modules", list)
			}
			before := pause()
			show(aLine, "ffffffffc0200000 t in_a\t[a]\n", "a", "\xaa\xaa\xaa\xaa")
			added := now()
			known.step(t, hear("a", heard{added: added}))
			inA := pause()
			k.write("proc/modules", "")
			removed := now()
			known.step(t, hear("a", heard{removed: removed}))
			between := pause()
			known.step(t, nil) // a look that sees nothing
			show(bLine, "ffffffffc0200000 t in_b\t[b]\n", "b", "\xbb\xbb\xbb\xbb")
			known.step(t, hear("b", heard{added: now()}))
			inB := pause()

			table := known.table()
			assert.Equal(t, "in_a", moduleAt(table, inA))
			assert.Equal(t, "in_b", moduleAt(table, inB))
			assert.Equal(t, 1, table.History())
			if tells {
				assert.Equal(t, "in_a", moduleAt(table, removed-1))
				assert.NotEqual(t, "in_b", moduleAt(table, between))
			}
			assert.NotEqual(t, "in_b", moduleAt(table, before))
			m, ok := symtab.NewSnapshot(table).ModuleByBuildID("aaaaaaaa")
			require.True(t, ok, "a is known by its build")
			assert.LessOrEqual(t, added, m.Valid.From)
			assert.Equal(t, []string{"b"}, names(table))
		})
	}
}

func names(table *symtab.Table) (names []string) {
	for _, m := range table.Modules() {
		names = append(names, m.Name)
	}
	return names
}

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
