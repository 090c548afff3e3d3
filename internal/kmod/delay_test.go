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

// TestDelayFromTheFirstEvent loads two modules and unloads one, in a time that
// only passes while something waits: what is measured is the time for which the
// source settles, from the first event on. An unload needs no list.
func TestDelayFromTheFirstEvent(t *testing.T) {
	k := newKernel(t)
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.sysfs("b", "", sections{".text": 0xffffffffc0210000})
	synctest.Test(t, func(t *testing.T) {
		s := k.source()
		conn := newFake()
		s.feed.dial = func() (events, error) { return conn, nil }
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
		conn.send(uevent.Event{Action: "add", Subsystem: "net"}) // none of a module
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

// TestDelayOfWhatIsReadAgain: when modules came or went while symbols were read,
// the time until they are read again counts, too.
func TestDelayOfWhatIsReadAgain(t *testing.T) {
	k := newKernel(t)
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	const key = "ffffffffc0200800 b __key.0\t[a]\n"
	k.write("proc/kallsyms", core+key+key+"ffffffffc0200000 t f\t[a]\n") // seems torn the first time
	synctest.Test(t, func(t *testing.T) {
		f := k.stepper()
		defer f.stop()
		f.scan()
		k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
		f.events.send(added("a"))
		begin := time.Now()
		assert.False(t, f.once())
		time.Sleep(time.Minute)
		f.scan()
		var changes symcache.Changes
		changes.Note(symcache.KindSymbols, 1, begin)
		assert.Equal(t, changes, f.last.Changes)
	})
}
