package kmod

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// TestDelayFromTheFirstEvent loads two modules and unloads one, in a time that
// only passes while something waits: what is measured is the time for which the
// source settles, from the first event on.
func TestDelayFromTheFirstEvent(t *testing.T) {
	k := newKernel(t)
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.sysfs("b", "", sections{".text": 0xffffffffc0210000})
	synctest.Test(t, func(t *testing.T) {
		s := k.source()
		conn := make(told)
		s.dial = func() (events, error) { return conn, nil }
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
		time.Sleep(time.Minute)
		k.write("proc/kallsyms", core+"ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
		k.write("proc/modules", "b 4096 0 - Live 0xffffffffc0210000\na 4096 0 - Live 0xffffffffc0200000\n")
		conn <- uevent.Event{Action: "add", Subsystem: "net"} // none of a module
		time.Sleep(time.Minute)
		conn <- moduleEvent
		time.Sleep(time.Second / 2)
		conn <- moduleEvent
		time.Sleep(time.Minute)
		k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
		conn <- uevent.Event{Action: "remove", Subsystem: "module"}
		time.Sleep(time.Minute)
		cache.Stop()
		assert.Equal(t, []seen{
			{symcache.KindLoad, time.Second}, {symcache.KindSymbols, time.Second}, {symcache.KindUnload, time.Second},
		}, delays)
	})
}

// TestDelayOfWhatIsReadAgain: when modules came or went while symbols were read,
// the time until they are read again counts, too.
func TestDelayOfWhatIsReadAgain(t *testing.T) {
	k := newKernel(t)
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	const key = "ffffffffc0200800 b __key.0\t[a]\n"
	k.write("proc/kallsyms", core+key+key+"ffffffffc0200000 t f\t[a]\n") // looks torn the first time
	known := newKnown(k.source())
	begin := time.Now()
	known.told(news{since: begin})
	_, err := known.refresh(context.Background(), func() {})
	require.NoError(t, err)
	known.told(news{since: begin.Add(time.Hour)})
	assert.Equal(t, begin, known.since)
	_, err = known.refresh(context.Background(), func() {})
	require.NoError(t, err)
	assert.Zero(t, known.since)
}
