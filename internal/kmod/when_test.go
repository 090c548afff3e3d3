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

// step is a look at the modules, after what events told; if they are nil, nothing
// received any.
func (k *known) step(t *testing.T, events map[string]heard) {
	t.Helper()
	k.told(news{since: time.Now(), missed: events == nil, heard: events})
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

// remembering returns a source that forgets nothing, and what it knows.
func (k kernel) remembering() (*Source, *known) {
	s := k.source()
	s.history = symtab.History{TTL: time.Hour, MaxEntries: 10}
	return s, newKnown(s)
}

// showA has module a at the place, showB b.
func (k kernel) showA() { k.show("a", "\xaa\xaa\xaa\xaa", aLine) }
func (k kernel) showB() { k.show("b", "\xbb\xbb\xbb\xbb", bLine) }

func (k kernel) show(module, buildID, list string) {
	k.sysfs(module, buildID, sections{".text": place})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t in_"+module+"\t["+module+"]\n")
	k.write("proc/modules", list)
}

// TestModulesThatTakeEachOthersPlace: each is known for its time, by what events tell
// or, without them, by the looks. No look sees that nobody has the place.
func TestModulesThatTakeEachOthersPlace(t *testing.T) {
	for name, tells := range map[string]bool{"events tell": true, "nothing tells": false} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			_, known := k.remembering()
			hear := func(events map[string]heard) map[string]heard {
				if !tells {
					return nil
				}
				return events
			}
			known.step(t, nil)
			before := pause()
			known.step(t, hear(map[string]heard{}))
			k.showA()
			added := now()
			known.step(t, hear(map[string]heard{"a": {added: added}}))
			inA := pause()
			removed := now()
			between := pause()
			k.showB()
			bAdded := now()
			known.step(t, hear(map[string]heard{"a": {removed: removed}, "b": {added: bAdded}}))
			inB := pause()

			table := known.table()
			assert.NotEqual(t, "in_b", moduleAt(table, before))
			assert.Equal(t, "in_b", moduleAt(table, inB))
			assert.Equal(t, 1, table.History())
			assert.Equal(t, []string{"b"}, names(table))
			a, ok := symtab.NewSnapshot(table).ModuleByBuildID("aaaaaaaa")
			require.True(t, ok, "a is known by its build")
			b := table.Modules()[0]
			assert.LessOrEqual(t, a.Valid.To, possibleFrom(b), "b was not there before a went")
			if !tells {
				assert.LessOrEqual(t, added, a.Valid.From)
				assert.LessOrEqual(t, a.Valid.To, inA, "it is certain when the list was read")
				return
			}
			assert.Equal(t, symtab.Interval{From: added, To: removed}, a.Valid)
			assert.Equal(t, symtab.Since(bAdded), b.Valid)
			assert.Equal(t, "in_a", moduleAt(table, inA))
			assert.Equal(t, "in_a", moduleAt(table, removed-1))
			assert.Empty(t, moduleAt(table, between), "a on its way out, or the init function of b: nobody knows")
		})
	}
}

// possibleFrom returns since when a module may have been there, to the microsecond.
func possibleFrom(m *symtab.Module) int64 {
	return m.Valid.From - int64(m.Slack.Before)*1000 + 1000
}

func names(table *symtab.Table) (names []string) {
	for _, m := range table.Modules() {
		names = append(names, m.Name)
	}
	return names
}

// TestNotNamedLongBeforeItWasThere has the last look an hour ago: only if events were
// missed since then can the module have been there.
func TestNotNamedLongBeforeItWasThere(t *testing.T) {
	const hour = int64(time.Hour)
	for name, tt := range map[string]struct {
		events func(added int64) map[string]heard
		long   string
	}{
		"an event tells":        {func(added int64) map[string]heard { return map[string]heard{"b": {added: added}} }, ""},
		"it will tell":          {func(int64) map[string]heard { return map[string]heard{} }, ""},
		"events may be missing": {func(int64) map[string]heard { return nil }, "in_b"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			_, known := k.remembering()
			known.step(t, nil)
			known.when.looked = max(known.when.looked-hour, 1)
			long := max(now()-hour/2, now()/2) // the machine may not be up for an hour
			k.showB()
			added := now()
			known.step(t, tt.events(added))
			table := known.table()
			assert.Equal(t, "in_b", moduleAt(table, added-int64(initTime)/2), "its init function")
			assert.Equal(t, tt.long, moduleAt(table, long))
		})
	}
}

// TestModuleThatIsLongInitialized: it is certainly there when it is in the list.
func TestModuleThatIsLongInitialized(t *testing.T) {
	k := newKernel(t)
	_, known := k.remembering()
	none := map[string]heard{}
	known.step(t, none)
	before := pause()
	known.step(t, none)
	absent := known.when.looked
	k.sysfs("b", "", sections{".text": place})
	k.write("proc/modules", "b 8192 0 - Loading 0xffffffffc0200000\n")
	known.step(t, none)
	seen := known.when.looked
	for range 3 {
		known.step(t, none)
	}
	k.write("proc/kallsyms", core+"ffffffffc0200000 t in_b\t[b]\n")
	k.write("proc/modules", bLine)
	known.step(t, map[string]heard{"b": {added: now()}})
	b := known.table().Modules()[0]
	assert.Equal(t, symtab.Since(seen), b.Valid)
	assert.InDelta(t, absent, possibleFrom(b), 2000)
	assert.Empty(t, moduleAt(known.table(), before))
	assert.Empty(t, known.when.coming)
	assert.Empty(t, known.when.events)
}

// TestModuleThatIsAboutToGo is not in the list as a live one, and no event told that
// yet: it was there until the list was read, however long ago the last time was.
func TestModuleThatIsAboutToGo(t *testing.T) {
	k := newKernel(t)
	_, known := k.remembering()
	k.showA()
	known.step(t, nil)
	inA := pause()
	k.write("proc/modules", "a 4096 0 - Unloading 0xffffffffc0200000\n")
	known.step(t, map[string]heard{})
	a, ok := symtab.NewSnapshot(known.table()).ModuleByBuildID("aaaaaaaa")
	require.True(t, ok)
	assert.Greater(t, a.Valid.To, inA)
	assert.Equal(t, known.when.looked, a.Valid.To)
}

// TestModuleThatNoLookSaw: a module takes the place of another and goes again, while
// the list is not read. Its samples are not named after the one that was there long
// before, of which an event has told that it went.
func TestModuleThatNoLookSaw(t *testing.T) {
	const seconds = int64(time.Second)
	k := newKernel(t)
	_, known := k.remembering()
	known.step(t, nil)
	known.step(t, map[string]heard{})
	k.showA()
	known.step(t, map[string]heard{"a": {added: now()}})
	// As if the next look came much later.
	m := known.modules[0]
	m.info.Valid.From -= 20 * seconds
	known.when.looked -= 20 * seconds
	removed := now() - 15*seconds
	k.write("proc/modules", "")
	known.step(t, map[string]heard{
		"a": {removed: removed},
		"b": {added: removed + 5*seconds, removed: removed + 10*seconds}, // at the same place
	})
	table := known.table()
	assert.Equal(t, "in_a", moduleAt(table, removed-seconds))
	assert.Equal(t, "in_a", moduleAt(table, removed+seconds/10), "on its way out")
	assert.Empty(t, moduleAt(table, removed+7*seconds), "b's")
}
