// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// byBuild returns a load that is there or in the history.
func (f *stepper) byBuild(id string) *timeline.Image {
	f.t.Helper()
	m, ok := timeline.NewSnapshot(f.last.Table).ByBuildID(id)
	require.True(f.t, ok, id)
	return m
}

// TestContract_5_1_EventsBoundALifetime: it begins when "add" was read, and ends when the
// socket was known to be empty before "remove".
func TestContract_5_1_EventsBoundALifetime(t *testing.T) {
	k := newKernel(t)
	f := k.stepper()
	defer f.stop()
	f.scan()
	k.showA()
	before := pause()
	f.Refresh()
	f.events.send(added("a"))
	unread := pause()
	f.Refresh() // reads the event, not the list
	assert.Less(t, f.last.Table.Certain(), unread, "nothing is certain until the list was read")
	read := now()
	f.scan()
	inA := pause()
	f.Refresh()
	empty := now()
	assert.Equal(t, "in_a", f.at(inA))
	assert.Empty(t, f.at(unread))
	assert.Empty(t, f.at(before))
	assert.Equal(t, timeline.Interval{From: f.byBuild("aaaaaaaa").Lifetime.From, To: timeline.Forever}, f.byBuild("aaaaaaaa").Lifetime)
	assert.True(t, unread < f.byBuild("aaaaaaaa").Lifetime.From && f.byBuild("aaaaaaaa").Lifetime.From <= read, "read when the event was")

	f.events.send(removed("a"))
	gone := pause()
	f.Refresh()
	a := f.byBuild("aaaaaaaa")
	assert.True(t, inA < a.Lifetime.To && a.Lifetime.To <= empty, "ends when the socket was empty last")
	assert.Greater(t, f.last.Table.Certain(), gone, "no list is needed to know that it went")
	assert.Empty(t, f.at(gone))
	assert.Equal(t, 1, f.last.Table.Unloaded())
}

// TestEventsThatUserSpaceAsksFor says of no module that it has come or gone.
func TestEventsThatUserSpaceAsksFor(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.stop()
	f.scan()
	for _, e := range []uevent.Event{removed("a"), added("a"), added("b")} {
		e.Synthetic = true
		f.events.send(e)
	}
	f.Refresh()
	assert.Equal(t, "a:in_a", lookup(f.last.Table, place))
	assert.Zero(t, f.last.Table.Unloaded())
	assert.False(t, f.pending(), "no list has to confirm it")
}

// TestModulesThatTakeEachOthersPlace: one goes and another comes between two readings of
// the socket.
func TestModulesThatTakeEachOthersPlace(t *testing.T) {
	k := newKernel(t)
	f := k.stepper()
	defer f.stop()
	k.showA()
	f.scan()
	inA := pause()
	f.Refresh()
	between := pause()
	k.showB()
	f.events.send(removed("a"), added("b"))
	f.scan()
	inB := pause()
	f.Refresh()
	assert.Equal(t, "in_a", f.at(inA))
	assert.Empty(t, f.at(between), "either")
	assert.Equal(t, "in_b", f.at(inB))
	assert.LessOrEqual(t, f.byBuild("aaaaaaaa").Lifetime.To, f.byBuild("bbbbbbbb").Lifetime.From)
}

// TestFirstListBeginsALifetime: of what was there before, nothing is certain before the
// list showed it.
func TestFirstListBeginsALifetime(t *testing.T) {
	k := newKernel(t)
	k.showA()
	before := pause()
	f := k.stepper()
	defer f.stop()
	f.scan()
	after := pause()
	f.Refresh()
	assert.Empty(t, f.at(before))
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(before)))
	assert.Equal(t, "in_a", f.at(after))
}

// TestEventIsReadAfterTheList that shows the module: it is one load.
func TestEventIsReadAfterTheList(t *testing.T) {
	k := newKernel(t)
	f := k.stepper()
	defer f.stop()
	k.showA()
	f.scan()
	from := f.byBuild("aaaaaaaa").Lifetime.From
	f.events.send(added("a"))
	f.scan()
	assert.Equal(t, timeline.Since(from), f.byBuild("aaaaaaaa").Lifetime)
	assert.Zero(t, f.last.Table.Unloaded())
	assert.Greater(t, f.last.Table.Certain(), from)
}

// TestCameAndWent: a module is loaded and unloaded before any list shows it. Where it was
// is not known.
func TestCameAndWent(t *testing.T) {
	k := newKernel(t)
	f := k.stepper()
	defer f.stop()
	f.scan()
	f.events.send(added("a"))
	f.Refresh()
	at := pause()
	f.events.send(removed("a"))
	f.Refresh()
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(at)))
	after := pause()
	f.Refresh()
	assert.False(t, f.last.Table.IsBlind(timeline.Instant(after)))
}

// TestContract_5_2_LostEvents: one load has the same build id and base before and after,
// another not, and one has no build id.
func TestContract_5_2_LostEvents(t *testing.T) {
	const other, third = 0xffffffffc0210000, 0xffffffffc0220000
	k := newKernel(t)
	list := aLine + "b 4096 0 - Live 0xffffffffc0210000\nc 4096 0 - Live 0xffffffffc0220000\nd 4096 0 - Live 0xffffffffc0230000\n"
	k.sysfs("a", "\xaa\xaa\xaa\xaa", sections{".text": place})
	k.sysfs("b", "\xbb\xbb\xbb\xbb", sections{".text": other})
	k.sysfs("c", "", sections{".text": third})
	k.sysfs("d", "\xdd\xdd\xdd\xdd", sections{".text": 0xffffffffc0230000})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t in_a\t[a]\nffffffffc0210000 t in_b\t[b]\nffffffffc0220000 t in_c\t[c]\nffffffffc0230000 t in_d\t[d]\n")
	k.write("proc/modules", list)
	f := k.stepper()
	defer f.stop()
	f.scan()
	before := pause()
	f.Refresh()
	lastEmpty := f.last.Table.Certain()

	k.sysfs("b", "\xbc\xbc\xbc\xbc", sections{".text": other})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t in_a\t[a]\nffffffffc0210000 t in_b2\t[b]\nffffffffc0220000 t in_c2\t[c]\n")
	k.write("proc/modules", list[:len(list)-len("d 4096 0 - Live 0xffffffffc0230000\n")])
	f.events.send(uevent.ErrLost)
	blind := pause()
	f.Refresh()
	assert.Equal(t, lastEmpty, f.last.Table.Certain(), "until a list has been read")
	f.scan()
	after := pause()
	f.Refresh()

	answers := func(at int64) (names []string) {
		for _, addr := range []uint64{place, other, third, 0xffffffffc0230000} {
			hit, _ := timeline.NewSnapshot(f.last.Table).At(addr, timeline.Instant(at))
			if !hit.Symbol.Exists() {
				names = append(names, "")
			} else {
				names = append(names, hit.Name().System)
			}
		}
		return names
	}
	assert.Equal(t, []string{"in_a", "in_b", "in_c", "in_d"}, answers(before))
	assert.Equal(t, []string{"in_a", "", "", ""}, answers(blind))
	assert.Equal(t, []string{"in_a", "in_b2", "in_c2", ""}, answers(after))
	for _, build := range []string{"bbbbbbbb", "dddddddd"} {
		assert.Equal(t, lastEmpty, f.byBuild(build).Lifetime.To)
	}
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(blind)))
	assert.False(t, f.last.Table.IsBlind(timeline.Instant(after)))
	assert.EqualValues(t, 1, f.counts.LostRecords)
	assert.EqualValues(t, 1, f.counts.Resyncs)
}

// TestLossWhileTheListIsRead: the list confirms nothing.
func TestLossWhileTheListIsRead(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.stop()
	k2 := f.begin()
	list, err := f.list()
	require.NoError(t, err)
	loads := f.find(k2, list)
	f.events.send(uevent.ErrLost)
	_, ok := f.apply(k2, list, loads)
	assert.False(t, ok)
	f.scan()
	assert.Equal(t, "a:in_a", lookup(f.last.Table, place))
}

// TestEventsHavePrecedenceOverTheList that was read before them.
func TestEventsHavePrecedenceOverTheList(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.stop()
	for range 2 { // the module is new, then known
		k2 := f.begin()
		list, err := f.list()
		require.NoError(t, err)
		loads := f.find(k2, list)
		f.events.send(removed("a"))
		_, ok := f.apply(k2, list, loads)
		require.True(t, ok)
		assert.Empty(t, f.record.table(now()).Loaded())
		f.scan()
	}
}

// TestContract_5_2_Polled: without events a load is certain from the first list that
// shows it to the last, if it has a build id.
func TestContract_5_2_Polled(t *testing.T) {
	k := newKernel(t)
	f := k.stepperBy(nil)
	defer f.stop()
	before := pause()
	f.scan()
	k.showA()
	unseen := pause()
	f.scan()
	inA := pause()
	assert.Empty(t, f.at(inA), "until the next list shows it")
	f.scan()
	late := pause()
	k.showB()
	f.scan()
	inB := pause()
	f.scan()
	for at, want := range map[int64]string{before: "", unseen: "", inA: "in_a", late: "", inB: "in_b"} {
		assert.Equal(t, want, f.at(at))
	}
	assert.Equal(t, 1, f.last.Table.Unloaded())
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(inA)))
}

// TestPolledWithoutBuildID: nothing is certain of it, and nothing is read anew.
func TestPolledWithoutBuildID(t *testing.T) {
	k := newKernel(t)
	k.show("a", "", aLine)
	f := k.stepperBy(nil)
	defer f.stop()
	f.scan()
	k.write("proc/kallsyms", "?\n")
	var instants []int64
	for range 3 {
		instants = append(instants, pause())
		f.scan()
	}
	for _, at := range instants {
		assert.Empty(t, f.at(at))
	}
	assert.Equal(t, "a:in_a", lookup(f.last.Table, place), "as last seen")
	assert.Zero(t, f.last.Table.Unloaded())
	assert.EqualValues(t, 1, f.counts.Updates[0])
}

// TestEventThatNeverCame: the list does not show a module any more, and no event said so.
// It was there for as long as a list showed it.
func TestEventThatNeverCame(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.stop()
	f.scan()
	inA := pause()
	f.scan()
	listed := f.record.listed
	k.write("proc/modules", "")
	at := pause()
	f.scan()
	assert.Equal(t, "in_a", f.at(inA))
	assert.Empty(t, f.at(at))
	assert.Equal(t, listed, f.byBuild("aaaaaaaa").Lifetime.To)
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(at)))
}

// TestModuleThatIsAboutToGo is there until its event says that it went.
func TestModuleThatIsAboutToGo(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.stop()
	f.scan()
	k.write("proc/modules", "a 4096 0 - Unloading 0xffffffffc0200000\n")
	f.scan()
	inA := pause()
	f.Refresh()
	f.events.send(removed("a"))
	f.scan()
	assert.Equal(t, "in_a", f.at(inA))
	assert.Empty(t, f.last.Table.Loaded())
}

// TestHistoryIsEvicted: when it is too old, and when it is too much.
func TestHistoryIsEvicted(t *testing.T) {
	for name, limits := range map[string]timeline.Limits{
		"too old":  {TTL: 30 * time.Millisecond, MaxEntries: 10},
		"too many": {TTL: time.Hour, MaxEntries: 1},
		"none":     {},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			f := k.stepper()
			defer f.stop()
			f.record = newRecord(limits)
			f.scan()
			var inA int64
			for range 2 {
				k.showA()
				f.events.send(added("a"))
				f.scan()
				if inA == 0 {
					inA = pause()
				}
				f.Refresh()
				f.events.send(removed("a"))
				f.Refresh()
				k.write("proc/modules", "")
			}
			time.Sleep(40 * time.Millisecond)
			f.scan()
			assert.Equal(t, limits.MaxEntries%10, f.last.Table.Unloaded())
			assert.Empty(t, f.at(inA))
			assert.True(t, f.last.Table.IsBlind(timeline.Instant(inA)))
		})
	}
}
