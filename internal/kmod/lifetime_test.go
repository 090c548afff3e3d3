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

// byBuild returns the image with a build id, which is loaded or in the history.
func (f *stepper) byBuild(id string) *timeline.Image {
	f.t.Helper()
	m, ok := timeline.NewSnapshot(f.last.Table).ByBuildID(id)
	require.True(f.t, ok, id)
	return m
}

// TestContract_5_1_EventsBoundALifetime verifies that a lifetime begins when "add" was read, and ends when
// the socket was last known to be empty before "remove".
func TestContract_5_1_EventsBoundALifetime(t *testing.T) {
	k := newKernel(t)
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	k.showA()
	before := passTime()
	f.source.Refresh()
	f.conn.send(added("a"))
	unread := passTime()
	f.source.Refresh() // reads the event, but not the list
	assert.Less(t, f.last.Table.Certain(), unread, "nothing is certain until the list was read")
	read := now()
	f.scan()
	inA := passTime()
	f.source.Refresh()
	empty := now()
	assert.Equal(t, "in_a", f.at(inA))
	assert.Empty(t, f.at(unread))
	assert.Empty(t, f.at(before))
	lifetime := f.byBuild("aaaaaaaa").Lifetime
	assert.Equal(t, timeline.Interval{From: lifetime.From, To: timeline.Forever}, lifetime)
	assert.True(t, unread < lifetime.From && lifetime.From <= read, "begins when the event was read")

	f.conn.send(removed("a"))
	gone := passTime()
	f.source.Refresh()
	a := f.byBuild("aaaaaaaa")
	assert.True(t, inA < a.Lifetime.To && a.Lifetime.To <= empty, "ends when the socket was last empty")
	assert.Greater(t, f.last.Table.Certain(), gone, "no list is needed to know that it was unloaded")
	assert.Empty(t, f.at(gone))
	assert.Equal(t, 1, f.last.Table.Unloaded())
}

// TestSyntheticEvents verifies that an event that user space asked for loads and unloads no module.
func TestSyntheticEvents(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	for _, e := range []uevent.Event{removed("a"), added("a"), added("b")} {
		e.Synthetic = true
		f.conn.send(e)
	}
	f.source.Refresh()
	assert.Equal(t, "a:in_a", lookup(f.last.Table, textAddr))
	assert.Zero(t, f.last.Table.Unloaded())
	assert.False(t, f.source.needsList(), "no list has to confirm it")
}

// TestModuleReplacedByAnother has a module unloaded, and another one loaded at the same address, between
// two readings of the socket.
func TestModuleReplacedByAnother(t *testing.T) {
	k := newKernel(t)
	f := k.stepper()
	defer f.source.stop()
	k.showA()
	f.scan()
	inA := passTime()
	f.source.Refresh()
	between := passTime()
	k.showB()
	f.conn.send(removed("a"), added("b"))
	f.scan()
	inB := passTime()
	f.source.Refresh()
	assert.Equal(t, "in_a", f.at(inA))
	assert.Empty(t, f.at(between), "either of them")
	assert.Equal(t, "in_b", f.at(inB))
	assert.LessOrEqual(t, f.byBuild("aaaaaaaa").Lifetime.To, f.byBuild("bbbbbbbb").Lifetime.From)
}

// TestFirstListBeginsALifetime verifies that a module which was loaded before the start is certain only
// since the list showed it.
func TestFirstListBeginsALifetime(t *testing.T) {
	k := newKernel(t)
	k.showA()
	before := passTime()
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	after := passTime()
	f.source.Refresh()
	assert.Empty(t, f.at(before))
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(before)))
	assert.Equal(t, "in_a", f.at(after))
}

// TestEventIsReadAfterTheList reads an "add" event after the list that shows the module: both are about
// the same load.
func TestEventIsReadAfterTheList(t *testing.T) {
	k := newKernel(t)
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	k.showA()
	f.scan()
	from := f.byBuild("aaaaaaaa").Lifetime.From
	f.conn.send(added("a"))
	f.source.Refresh()
	assert.False(t, f.source.needsList(), "the last list confirms it")
	f.scan()
	assert.Equal(t, timeline.Since(from), f.byBuild("aaaaaaaa").Lifetime)
	assert.Zero(t, f.last.Table.Unloaded())
	assert.Greater(t, f.last.Table.Certain(), from)
}

// TestUnloadedBeforeAnyList has a module loaded and unloaded before any list shows it. Its addresses are
// not known, so the time is blind.
func TestUnloadedBeforeAnyList(t *testing.T) {
	k := newKernel(t)
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	f.conn.send(added("a"))
	f.source.Refresh()
	at := passTime()
	f.conn.send(removed("a"))
	f.source.Refresh()
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(at)))
	after := passTime()
	f.source.Refresh()
	assert.False(t, f.last.Table.IsBlind(timeline.Instant(after)))
}

// TestContract_5_2_LostEvents has three modules before and after a loss: one has the same build id and base,
// one has another build id, and one has no build id. A fourth is unloaded.
func TestContract_5_2_LostEvents(t *testing.T) {
	const other, third = 0xffffffffc0210000, 0xffffffffc0220000
	k := newKernel(t)
	const bToD = "b 4096 0 - Live 0xffffffffc0210000\n" +
		"c 4096 0 - Live 0xffffffffc0220000\n" +
		"d 4096 0 - Live 0xffffffffc0230000\n"
	list := aLine + bToD
	k.writeSysfs("a", "\xaa\xaa\xaa\xaa", sections{".text": textAddr})
	k.writeSysfs("b", "\xbb\xbb\xbb\xbb", sections{".text": other})
	k.writeSysfs("c", "", sections{".text": third})
	k.writeSysfs("d", "\xdd\xdd\xdd\xdd", sections{".text": 0xffffffffc0230000})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t in_a\t[a]\nffffffffc0210000 t in_b\t[b]\n"+
		"ffffffffc0220000 t in_c\t[c]\nffffffffc0230000 t in_d\t[d]\n")
	k.write("proc/modules", list)
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	before := passTime()
	f.source.Refresh()
	lastEmpty := f.last.Table.Certain()

	k.writeSysfs("b", "\xbc\xbc\xbc\xbc", sections{".text": other})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t in_a\t[a]\nffffffffc0210000 t in_b2\t[b]\n"+
		"ffffffffc0220000 t in_c2\t[c]\n")
	k.write("proc/modules", list[:len(list)-len("d 4096 0 - Live 0xffffffffc0230000\n")])
	f.conn.send(uevent.ErrLost)
	blind := passTime()
	f.source.Refresh()
	assert.Equal(t, lastEmpty, f.last.Table.Certain(), "until a list has been read")
	f.scan()
	after := passTime()
	f.source.Refresh()

	answers := func(at int64) (names []string) {
		for _, addr := range []uint64{textAddr, other, third, 0xffffffffc0230000} {
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

// TestLossWhileTheListIsRead verifies that a list confirms nothing if events were lost while it was read.
func TestLossWhileTheListIsRead(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.source.stop()
	scan := f.reader.beginScan()
	list, err := f.source.roots.readList()
	require.NoError(t, err)
	loads := f.reader.readLoads(scan, list)
	f.conn.send(uevent.ErrLost)
	_, ok := f.reader.applyScan(scan, list, loads)
	assert.False(t, ok)
	f.scan()
	assert.Equal(t, "a:in_a", lookup(f.last.Table, textAddr))
}

// TestEventsTakePrecedenceOverTheList verifies that an event takes precedence over a list that was read
// before it.
func TestEventsTakePrecedenceOverTheList(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.source.stop()
	for range 2 { // the module is new, then known
		scan := f.reader.beginScan()
		list, err := f.source.roots.readList()
		require.NoError(t, err)
		loads := f.reader.readLoads(scan, list)
		f.conn.send(removed("a"))
		_, ok := f.reader.applyScan(scan, list, loads)
		require.True(t, ok)
		assert.Empty(t, f.source.state.tracker.table(now()).Loaded())
		f.scan()
	}
}

// TestContract_5_2_Polled verifies that without events, a load with a build id is certain from the first
// list that shows it to the last.
func TestContract_5_2_Polled(t *testing.T) {
	k := newKernel(t)
	f := k.stepperWith(nil)
	defer f.source.stop()
	before := passTime()
	f.scan()
	k.showA()
	unseen := passTime()
	f.scan()
	inA := passTime()
	assert.Empty(t, f.at(inA), "until the next list shows it")
	f.scan()
	late := passTime()
	k.showB()
	f.scan()
	inB := passTime()
	f.scan()
	for at, want := range map[int64]string{before: "", unseen: "", inA: "in_a", late: "", inB: "in_b"} {
		assert.Equal(t, want, f.at(at))
	}
	assert.Equal(t, 1, f.last.Table.Unloaded())
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(inA)))
}

// TestPolledWithoutBuildID verifies that without events, nothing is certain about a module without a
// build id, and that its symbols are not read again.
func TestPolledWithoutBuildID(t *testing.T) {
	k := newKernel(t)
	k.show("a", "", aLine)
	f := k.stepperWith(nil)
	defer f.source.stop()
	f.scan()
	k.write("proc/kallsyms", "?\n")
	var instants []int64
	for range 3 {
		instants = append(instants, passTime())
		f.scan()
	}
	for _, at := range instants {
		assert.Empty(t, f.at(at))
	}
	assert.Equal(t, "a:in_a", lookup(f.last.Table, textAddr), "as last seen")
	assert.Zero(t, f.last.Table.Unloaded())
	assert.EqualValues(t, 1, f.counts.Updates[0])
}

// TestEventThatNeverArrives has a module that is no longer in the list, although no event announced that.
// It was certainly loaded for as long as a list showed it.
func TestEventThatNeverArrives(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	inA := passTime()
	f.scan()
	lastScan := f.source.state.tracker.lastScan
	k.write("proc/modules", "")
	at := passTime()
	f.scan()
	assert.Equal(t, "in_a", f.at(inA))
	assert.Empty(t, f.at(at))
	assert.Equal(t, lastScan, f.byBuild("aaaaaaaa").Lifetime.To)
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(at)))
}

// TestRemovalThatIsNotAnnounced has a program make the kernel send a synthetic "remove" event, after which the kernel sends none
// when the module is unloaded. Another build of it is loaded at the same address.
func TestRemovalThatIsNotAnnounced(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	synthetic := removed("a")
	synthetic.Synthetic = true
	f.conn.send(synthetic)
	f.source.Refresh()
	lastScan, later := f.source.state.tracker.lastScan, passTime()
	k.writeSysfs("a", "\xcc\xcc\xcc\xcc", sections{".text": textAddr})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t new_function\t[a]\n")
	f.conn.send(added("a"))
	f.source.Refresh()
	assert.True(t, f.source.needsList())
	assert.Empty(t, lookup(f.last.Table, textAddr))
	f.scan()
	at := passTime()
	f.source.Refresh()
	assert.Equal(t, "new_function", f.at(at))
	assert.Empty(t, f.at(later))
	assert.LessOrEqual(t, f.byBuild("aaaaaaaa").Lifetime.To, max(lastScan, f.byBuild("aaaaaaaa").Lifetime.From+1))
	assert.True(t, f.last.Table.IsBlind(timeline.Instant(later)))
}

// TestListShowsInitialization verifies that a module which a list shows as "Loading" was unloaded before: another build of it is
// being initialized, and its "add" event is yet to come.
func TestListShowsInitialization(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	k.writeSysfs("a", "\xcc\xcc\xcc\xcc", sections{".text": textAddr})
	k.write("proc/modules", "a 4096 0 - Loading 0xffffffffc0200000\n")
	inInit := passTime()
	f.scanOnce()
	f.source.Refresh()
	assert.Empty(t, f.at(inInit), "its init function runs")
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t new_function\t[a]\n")
	f.conn.send(added("a"))
	f.source.Refresh()
	f.scan()
	at := passTime()
	f.source.Refresh()
	assert.Equal(t, "new_function", f.at(at))
	assert.Empty(t, f.at(inInit), "afterwards")
}

// TestLostEventThatAListPreceded has the "add" event of a module lost that a list had shown before. The next one is about another
// load, although no "remove" event was read.
func TestLostEventThatAListPreceded(t *testing.T) {
	k := newKernel(t)
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	k.showA()
	f.scan()
	f.conn.send(uevent.ErrLost)
	f.source.Refresh()
	f.scan()
	f.source.Refresh()
	k.writeSysfs("a", "\xcc\xcc\xcc\xcc", sections{".text": textAddr})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t new_function\t[a]\n")
	f.conn.send(added("a"))
	f.source.Refresh()
	f.scan()
	at := passTime()
	f.source.Refresh()
	assert.Equal(t, "new_function", f.at(at))
}

// TestModuleThatIsBeingUnloaded verifies that a module in state "Unloading" counts as loaded until its event
// is read.
func TestModuleThatIsBeingUnloaded(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	k.write("proc/modules", "a 4096 0 - Unloading 0xffffffffc0200000\n")
	f.scan()
	inA := passTime()
	f.source.Refresh()
	f.conn.send(removed("a"))
	f.scan()
	assert.Equal(t, "in_a", f.at(inA))
	assert.Empty(t, f.last.Table.Loaded())
}

// TestHistoryIsEvicted verifies that unloaded modules are forgotten when they are too old, and when there
// are too many.
func TestHistoryIsEvicted(t *testing.T) {
	for name, limits := range map[string]timeline.Limits{
		"too old":  {TTL: 30 * time.Millisecond, MaxEntries: 10},
		"too many": {TTL: time.Hour, MaxEntries: 1},
		"none":     {},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			f := k.stepper()
			defer f.source.stop()
			f.source.state.tracker = newTracker(limits)
			f.scan()
			var inA int64
			for range 2 {
				k.showA()
				f.conn.send(added("a"))
				f.scan()
				if inA == 0 {
					inA = passTime()
				}
				f.source.Refresh()
				f.conn.send(removed("a"))
				f.source.Refresh()
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
