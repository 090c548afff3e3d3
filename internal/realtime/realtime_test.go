package realtime

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

const (
	second = int64(time.Second)
	hour   = int64(time.Hour)
	epoch  = 1_700_000_000 * second // Unix time when the kernel's clock began
)

// machine is one with two clocks.
type machine struct {
	boot, offset int64
	tracker      *Tracker
}

func newMachine() *machine {
	m := &machine{boot: 1000 * second, offset: epoch}
	m.tracker = NewTracker(10*time.Minute, func() (int64, int64) { return m.boot, m.offset })
	return m
}

// pass lets time pass, in which the clock is read once a second.
func (m *machine) pass(d time.Duration) *Clock {
	var c *Clock
	for end := m.boot + int64(d); m.boot < end; {
		m.boot = min(end, m.boot+second)
		_, c = m.tracker.Now()
	}
	return c
}

func (m *machine) unix() int64 { return m.boot + m.offset }

func TestClock(t *testing.T) {
	m := newMachine()
	c := m.pass(time.Minute)
	assert.Equal(t, []symtab.Interval{{From: 1000 * second, To: 1001 * second}},
		c.Convert(nil, symtab.Interval{From: epoch + 1000*second, To: epoch + 1001*second}))
	assert.Equal(t, []symtab.Interval{{From: math.MinInt64, To: math.MaxInt64 - epoch}}, c.Convert(nil, symtab.Always))
}

// TestSuspend: CLOCK_BOOTTIME goes on, so nothing changes.
func TestSuspend(t *testing.T) {
	m := newMachine()
	before := m.unix()
	m.boot += 8 * hour
	c := m.pass(time.Second)
	at := c.Convert(nil, symtab.Instant(before))
	assert.Equal(t, []symtab.Interval{symtab.Instant(before - epoch)}, at)
}

func TestClockThatIsSetForward(t *testing.T) {
	m := newMachine()
	before := m.unix()
	m.offset += hour
	c := m.pass(time.Minute)
	after := m.unix()
	assert.Equal(t, []symtab.Interval{symtab.Instant(before - epoch)}, c.Convert(nil, symtab.Instant(before)))
	assert.Equal(t, []symtab.Interval{symtab.Instant(m.boot)}, c.Convert(nil, symtab.Instant(after)))
	assert.Empty(t, c.Convert(nil, symtab.Instant(before+hour/2)), "the clock never showed this")
	assert.Equal(t, []symtab.Interval{{From: before - epoch, To: m.boot}},
		c.Convert(nil, symtab.Interval{From: before, To: after}), "no time is missing in between")
}

func TestClockThatIsSetBack(t *testing.T) {
	m := newMachine()
	m.pass(30 * time.Minute)
	first := m.unix()
	m.pass(time.Minute)
	m.offset -= 60 * second
	c := m.pass(2 * time.Minute)
	require.Less(t, m.boot, first-epoch+4*60*second)
	assert.Equal(t, []symtab.Interval{symtab.Instant(first - epoch + 30*second), symtab.Instant(first - epoch + 90*second)},
		c.Convert(nil, symtab.Instant(first+30*second)), "it showed this twice")
	assert.Equal(t, []symtab.Interval{symtab.Instant(m.boot)}, c.Convert(nil, symtab.Instant(m.unix())))
	assert.Equal(t, []symtab.Interval{symtab.Instant(first - epoch - second)}, c.Convert(nil, symtab.Instant(first-second)))
}

// TestClockWhileItIsSet: whether a time within the second in which the clock was set
// is one of before or after is not known.
func TestClockWhileItIsSet(t *testing.T) {
	m := newMachine()
	m.pass(time.Minute)
	set := m.boot
	m.offset += hour
	c := m.pass(time.Minute)
	for _, offset := range []int64{epoch, epoch + hour} {
		during := set + second/2
		assert.Equal(t, []symtab.Interval{symtab.Instant(during)}, c.Convert(nil, symtab.Instant(during+offset)))
	}
}

func TestSlew(t *testing.T) {
	m := newMachine()
	type moment struct{ boot, unix int64 }
	var moments []moment
	var c *Clock
	for range 500 {
		m.offset += 500_000 // as fast as it can
		c = m.pass(time.Second)
		moments = append(moments, moment{m.boot, m.unix()})
	}
	for _, m := range moments {
		at := c.Convert(nil, symtab.Instant(m.unix))
		require.Len(t, at, 1)
		assert.InDelta(t, m.boot, at[0].From, 2e6)
	}
	assert.LessOrEqual(t, len(c.spans), 500)
}

func TestWhatIsLongAgoIsForgotten(t *testing.T) {
	m := newMachine()
	var c *Clock
	for range 100 {
		m.offset += hour
		c = m.pass(5 * time.Minute)
	}
	assert.LessOrEqual(t, len(c.spans), 4)
}
