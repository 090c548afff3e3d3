// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// TestSourceFollows loads, replaces and unloads a module.
func TestSourceFollows(t *testing.T) {
	k := newKernel(t)
	synctest.Test(t, func(t *testing.T) {
		s, conn := k.source(), newFakeConn()
		s.state.feed.dial = func() (connection, error) { return conn, nil }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		var table *timeline.Table
		go func() { done <- s.Run(ctx, func(u symcache.Update) { table = u.Table }) }()
		builds := func() (ids []string) {
			time.Sleep(time.Second)
			synctest.Wait()
			for _, m := range table.Loaded() {
				ids = append(ids, m.BuildID())
			}
			return ids
		}
		assert.Empty(t, builds())
		k.showA()
		conn.send(added("a"))
		assert.Equal(t, []string{"aaaaaaaa"}, builds())

		// The same name, size and address, but another build.
		k.show("a", "\xcc\xcc\xcc\xcc", aLine)
		conn.send(removed("a"), added("a"))
		assert.Equal(t, []string{"cccccccc"}, builds())

		k.write("proc/modules", "")
		conn.send(removed("a"))
		assert.Empty(t, builds())
		cancel()
		require.NoError(t, <-done)
	})
}

// TestSettle loads a second module while the source waits for further changes after the first one. Both
// are read at once. Their builds and addresses are published before their symbols.
func TestSettle(t *testing.T) {
	k := newKernel(t)
	synctest.Test(t, func(t *testing.T) {
		s, conn := k.source(), newFakeConn()
		s.state.feed.dial = func() (connection, error) { return conn, nil }
		s.settle = time.Second
		published, stop := run(t, s)
		time.Sleep(time.Millisecond)
		k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
		k.writeSysfs("b", "", sections{".text": 0xffffffffc0210000})
		k.write("proc/kallsyms", core+"ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
		const a = "a 4096 0 - Live 0xffffffffc0200000\n"
		k.write("proc/modules", a)
		conn.send(added("a"))
		time.Sleep(500 * time.Millisecond)
		k.write("proc/modules", "b 4096 0 - Live 0xffffffffc0210000\n"+a)
		conn.send(added("b"))
		time.Sleep(time.Minute)
		stop()
		assert.Equal(t, [][2]int{{0, 0}, {0, 2}, {2, 0}}, published.get())
		assert.Equal(t, symcache.Counts{
			Updates: [symcache.NumKinds]int64{symcache.KindLoad: 2, symcache.KindSymbols: 2},
		}, published.counts)
	})
}

// TestListDoesNotWaitForNextAttempt has a module loaded after an attempt to read symbols failed. The list
// is read at once, and the symbols are not.
func TestListDoesNotWaitForNextAttempt(t *testing.T) {
	k := newKernel(t)
	k.showA()
	synctest.Test(t, func(t *testing.T) {
		f := k.stepper()
		defer f.source.stop()
		f.scan()
		k.writeSysfs("b", "\xbb\xbb\xbb\xbb", sections{".text": textAddr + 0x10000})
		k.write("proc/modules", line("b", 4096, textAddr+0x10000)+aLine)
		k.write("proc/kallsyms", core+"?\n")
		f.conn.send(added("b"))
		f.source.Refresh()
		begin := time.Now()
		f.source.wait(t.Context(), begin.Add(time.Hour))
		assert.Equal(t, f.source.settle, time.Since(begin))
		complete, err := f.reader.scan(f.publish, false)
		require.NoError(t, err)
		assert.False(t, complete)
		require.Len(t, f.last.Table.Loaded(), 2)
		assert.Equal(t, "a:in_a", lookup(f.last.Table, textAddr), "it is certain")

		begin = time.Now()
		f.source.wait(t.Context(), begin.Add(time.Hour))
		assert.Equal(t, time.Hour, time.Since(begin), "nothing has changed")
	})
}

// TestRemovalIsKnownBeforeItHappens has a module that stays in the list for a while after its "remove"
// event.
func TestRemovalIsKnownBeforeItHappens(t *testing.T) {
	k := newKernel(t)
	k.showA()
	synctest.Test(t, func(t *testing.T) {
		s, conn := k.source(), newFakeConn()
		s.state.feed.dial = func() (connection, error) { return conn, nil }
		published, stop := run(t, s)
		time.Sleep(time.Millisecond)
		k.write("proc/modules", "a 4096 0 - Unloading 0xffffffffc0200000\n")
		conn.send(removed("a"))
		synctest.Wait()
		assert.Equal(t, [][2]int{{1, 0}, {0, 0}}, published.get(), "no time has passed")
		time.Sleep(time.Minute)
		stop()
		assert.Equal(t, [][2]int{{1, 0}, {0, 0}}, published.get())
	})
}

// TestSilenceIsEvidence verifies that without events and calls of Refresh, all modules are certain until
// at most a second ago: a module that is then unloaded was certainly loaded until that instant.
func TestSilenceIsEvidence(t *testing.T) {
	k := newKernel(t)
	k.showA()
	synctest.Test(t, func(t *testing.T) {
		s, conn := k.source(), newFakeConn()
		s.state.feed.dial = func() (connection, error) { return conn, nil }
		s.state.feed.now = func() int64 { return time.Now().UnixNano() }
		_, stop := run(t, s)
		time.Sleep(5*time.Second + 500*time.Millisecond)
		s.mu.Lock()
		silence := time.Since(time.Unix(0, s.state.tracker.lastEmpty))
		s.mu.Unlock()
		assert.Equal(t, 500*time.Millisecond, silence)
		stop()
	})
}

// TestListIsReadWithoutEvents has a module loaded that no event announces. The safety net shows it.
func TestListIsReadWithoutEvents(t *testing.T) {
	k := newKernel(t)
	synctest.Test(t, func(t *testing.T) {
		published, stop := run(t, k.source())
		time.Sleep(time.Millisecond)
		k.showA()
		time.Sleep(11 * time.Second)
		assert.Equal(t, [][2]int{{0, 0}, {0, 1}, {1, 0}}, published.get())
		k.write("proc/modules", "")
		time.Sleep(11 * time.Second)
		assert.Equal(t, [][2]int{{0, 0}, {0, 1}, {1, 0}, {0, 0}}, published.get())
		stop()
	})
}

// TestContract_8_WithoutEventsTheListIsPolled has the kernel refuse the socket. Later one socket breaks,
// and the next one loses events.
func TestContract_8_WithoutEventsTheListIsPolled(t *testing.T) {
	k := newKernel(t)
	synctest.Test(t, func(t *testing.T) {
		s := k.source()
		refused, broken := errors.New("refused"), errors.New("broken")
		breaks, loses := newFakeConn(), newFakeConn()
		conns := []*fakeConn{nil, nil, nil, breaks, loses}
		s.state.feed.dial = func() (connection, error) {
			conn := conns[0]
			conns = conns[1:]
			if conn == nil {
				return nil, refused
			}
			return conn, nil
		}
		published, stop := run(t, s)
		time.Sleep(1100 * time.Millisecond)
		k.showA()
		time.Sleep(1100 * time.Millisecond)
		assert.Equal(t, [][2]int{{0, 0}, {0, 1}, {1, 0}}, published.get())
		time.Sleep(20 * time.Second)
		breaks.send(broken)
		time.Sleep(10 * time.Second)
		loses.send(uevent.ErrLost)
		time.Sleep(10 * time.Second)
		stop()
		assert.Equal(t, []string{
			"falling back to polling modules every second: refused", "<nil>",
			"falling back to polling modules every second: broken", "<nil>",
		}, published.degraded)
		assert.EqualValues(t, 1, published.counts.LostRecords)
		assert.EqualValues(t, 3, published.counts.Resyncs, "the loss, and two new sockets")
		assert.EqualValues(t, 1, published.counts.Updates[symcache.KindLoad], "the module has a build id")
	})
}

// An unwaitable is a connection from which events can be read, but for which Wait fails.
type unwaitable struct{ *fakeConn }

func (unwaitable) Wait(context.Context, time.Time) error { return errors.New("cannot wait") }

// TestFailedWaitIsNotSilence verifies that a module which is loaded after Wait failed becomes known
// nevertheless.
func TestFailedWaitIsNotSilence(t *testing.T) {
	k := newKernel(t)
	synctest.Test(t, func(t *testing.T) {
		s := k.source()
		s.state.feed.dial = func() (connection, error) { return unwaitable{newFakeConn()}, nil }
		published, stop := run(t, s)
		time.Sleep(5 * time.Second)
		k.showA()
		time.Sleep(5 * time.Second)
		all := published.get()
		assert.Equal(t, [2]int{1, 0}, all[len(all)-1])
		assert.Contains(t, published.degraded, "falling back to polling modules every second: cannot wait")
		stop()
	})
}

// TestOnlyNewSymbolsAreRead has a list of symbols with a syntax error behind the newest module. The
// source does not read that far.
func TestOnlyNewSymbolsAreRead(t *testing.T) {
	k := newKernel(t)
	const a, b = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0210000\n"
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.writeSysfs("b", "", sections{".text": 0xffffffffc0210000})
	k.write("proc/modules", a)
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	k.write("proc/modules", b+a)
	k.write("proc/kallsyms", core+"ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n?\n")
	f.scan()
	assert.Equal(t, "b:g", lookup(f.last.Table, 0xffffffffc0210000))
	assert.Equal(t, "a:f", lookup(f.last.Table, 0xffffffffc0200000))
}

// TestRunAfterAFailure has a source fail, and run again after another module was loaded.
func TestRunAfterAFailure(t *testing.T) {
	k := newKernel(t)
	s := k.source()
	f := newStepper(t, s)
	var onUpdate func()
	runAgain := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return s.Run(ctx, func(u symcache.Update) {
			if f.publish(u); onUpdate == nil {
				cancel()
				return
			}
			onUpdate()
		})
	}
	k.showA()
	conn := newFakeConn()
	s.state.feed.dial = func() (connection, error) { return conn, nil }
	var inA int64
	onUpdate = func() {
		onUpdate = func() {}
		go func() {
			inA = passTime()
			s.Refresh()
			k.write("proc/modules", "?\n")
			conn.send(added("x"))
		}()
	}
	require.ErrorIs(t, runAgain(), ErrSyntax)
	certain := f.last.Table.Certain()
	assert.Equal(t, "in_a", f.at(inA))

	k.showB()
	onUpdate, conn = nil, newFakeConn()
	require.NoError(t, runAgain())
	b := f.last.Table.Loaded()[0]
	assert.Equal(t, "b", b.Name())
	assert.Equal(t, "in_a", f.at(inA))
	a, ok := timeline.NewSnapshot(f.last.Table).ByBuildID("aaaaaaaa")
	require.True(t, ok)
	assert.Equal(t, certain, a.Lifetime.To, "up to the last certain instant")
	assert.True(t, f.last.Table.IsBlind(timeline.Interval{From: certain + 1, To: b.Lifetime.From}))

	conn = newFakeConn()
	require.NoError(t, runAgain())
	assert.Equal(t, b.Lifetime, f.last.Table.Loaded()[0].Lifetime, "it has a build id, so it is the same load")
	assert.Equal(t, 1, f.last.Table.Unloaded())
}
