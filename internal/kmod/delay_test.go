// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// TestDelayFromTheFirstEvent loads two modules and unloads one, on a clock that only advances while
// all goroutines wait. So the measured delay is the settling time, from the first event on. An
// unload has no delay, because it needs no list.
func TestDelayFromTheFirstEvent(t *testing.T) {
	k := newKernel(t)
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.writeSysfs("b", "", sections{".text": 0xffffffffc0210000})
	synctest.Test(t, func(t *testing.T) {
		s := k.source()
		conn := newFakeConn()
		s.state.feed.dial = func() (connection, error) { return conn, nil }
		s.settle = time.Second
		cache := symcache.Start(zap.NewNop(), nil, s)
		type seen struct {
			kind  symcache.Kind
			delay time.Duration
		}
		var delays []seen
		cache.WatchDelays(func(_ string, kind symcache.Kind, delay time.Duration) {
			delays = append(delays, seen{kind, delay})
		})
		time.Sleep(time.Minute + time.Second)
		k.write("proc/kallsyms", core+"ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
		k.write("proc/modules", "b 4096 0 - Live 0xffffffffc0210000\na 4096 0 - Live 0xffffffffc0200000\n")
		conn.send(uevent.Event{Action: "add", Subsystem: "net"}) // not about a module
		time.Sleep(time.Second)
		conn.send(added("a"))
		time.Sleep(time.Second / 2)
		conn.send(added("b"))
		time.Sleep(time.Minute)
		k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
		conn.send(removed("b"))
		time.Sleep(time.Minute)
		cache.Stop()
		assert.Equal(t, []seen{
			{symcache.KindLoad, time.Second}, {symcache.KindSymbols, time.Second}, {symcache.KindUnload, 0},
		}, delays)
	})
}

// TestDelayIncludesReadingAgain verifies that when modules may have been loaded or unloaded while
// symbols were read, the delay includes the time until the symbols have been read again.
func TestDelayIncludesReadingAgain(t *testing.T) {
	k := newKernel(t)
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	const key = "ffffffffc0200800 b __key.0\t[a]\n"
	k.write("proc/kallsyms", core+key+key+"ffffffffc0200000 t f\t[a]\n") // seems inconsistent the first time
	synctest.Test(t, func(t *testing.T) {
		f := k.stepper()
		defer f.source.stop()
		f.scan()
		k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
		f.conn.send(added("a"))
		begin := time.Now()
		assert.False(t, f.scanOnce())
		time.Sleep(time.Minute)
		f.scan()
		var changes symcache.Changes
		changes.Note(symcache.KindSymbols, 1, begin)
		assert.Equal(t, changes, f.last.Changes)
	})
}
