// SPDX-License-Identifier: Apache-2.0

package realtime

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

const (
	second = int64(time.Second)
	hour   = int64(time.Hour)
	epoch  = 1_700_000_000 * second // Unix time at which the kernel's clock began
)

// machine is a machine with two clocks.
type machine struct {
	boot, offset, err int64
	wrong             int64 // error of readings of the offset
	tracker           *Tracker
}

func newMachine() *machine {
	m := &machine{boot: 100_000 * second, offset: epoch}
	m.tracker = NewTracker(10*time.Minute, func() Reading {
		return Reading{Boot: m.boot, Offset: m.offset + m.wrong, Error: m.err}
	})
	return m
}

// pass lets time pass, and reads the clock every 10 s.
func (m *machine) pass(d time.Duration) *Clock {
	var c *Clock
	for end := m.boot + int64(d); m.boot < end; {
		m.boot = min(end, m.boot+10*second)
		_, c = m.tracker.Now()
	}
	return c
}

func (m *machine) unix() int64 { return m.boot + m.offset }

// instant returns the shortest interval that contains t.
func instant(t int64) timeline.Interval { return timeline.Interval{From: t, To: t + 1} }

func TestClock(t *testing.T) {
	m := newMachine()
	c := m.pass(time.Minute)
	assert.Equal(t, timeline.Interval{From: 1000 * second, To: 1001 * second},
		c.Convert(timeline.Interval{From: epoch + 1000*second, To: epoch + 1001*second}))
	for _, c := range []*Clock{c, Fixed(epoch), Fixed(-epoch)} {
		always := timeline.Interval{From: math.MinInt64, To: math.MaxInt64}
		got := c.Convert(always)
		assert.True(t, got.From < -hour && hour < got.To, "%+v", got)
		assert.Less(t, c.Convert(instant(math.MinInt64)).From, -hour, "it does not wrap")
		assert.Greater(t, c.Convert(instant(math.MaxInt64-1)).To, hour)
	}
}

// TestSuspend: CLOCK_BOOTTIME does not stop, so nothing changes.
func TestSuspend(t *testing.T) {
	m := newMachine()
	before := m.unix()
	m.boot += 8 * hour
	c := m.pass(time.Second)
	assert.Equal(t, instant(before-epoch), c.Convert(instant(before)))
}

// TestStep sets the clock forward and back, in small and large steps. Whether a producer uses
// the old or the new difference, the interval contains the time of a sample. Long before and
// long after the step, the interval is exact.
func TestStep(t *testing.T) {
	for _, step := range []int64{
		1_000, 1_000_000, -1_000_000, 3_000_000, -3_000_000, 5_000_000, second, -second, hour, -hour,
	} {
		m := newMachine()
		m.pass(20 * time.Minute)
		set := m.boot + 3*second // between two readings
		m.offset += step
		c := m.pass(20 * time.Minute)
		old, now := epoch, epoch+step
		holds := func(at, offset int64) {
			t.Helper()
			got := c.Convert(instant(at + offset))
			require.True(t, got.From <= at && at < got.To, "step %d: %d after it: %+v", step, at-set, got)
		}
		for at := set - second; at < set+second; at += second / 100 {
			holds(at, old)
			holds(at, now)
		}
		for at := set - 5_000_000; at < set+5_000_000; at += 100_000 {
			holds(at, old)
			holds(at, now)
		}
		holds(set-int64(9*time.Second), now)
		holds(set+int64(4*time.Minute), old)
		if max(step, -step) > second {
			continue // the clock showed these times twice, or never
		}
		for _, at := range []int64{set - int64(time.Minute), set - hour} {
			assert.Equal(t, instant(at), c.Convert(instant(at+old)), "step %d: long before", step)
		}
		for _, at := range []int64{set + int64(6*time.Minute), m.boot} {
			assert.Equal(t, instant(at), c.Convert(instant(at+now)), "step %d: long after", step)
		}
	}
}

// TestTimesThatWereShownTwice: the clock is set back, so that it shows them again.
func TestTimesThatWereShownTwice(t *testing.T) {
	m := newMachine()
	m.pass(30 * time.Minute)
	set := m.boot
	m.offset -= hour
	c := m.pass(2 * time.Hour)
	shown := set - int64(30*time.Minute) // and again half an hour after it was set
	assert.Equal(t, timeline.Interval{From: shown, To: shown + hour + 1}, c.Convert(instant(shown+epoch)))
	assert.Equal(t, instant(m.boot), c.Convert(instant(m.unix())))
}

// TestTimesThatWereNeverShown: the clock is set forward. The skipped times still have an
// interval.
func TestTimesThatWereNeverShown(t *testing.T) {
	m := newMachine()
	m.pass(time.Minute)
	set := m.boot
	m.offset += 10 * hour
	c := m.pass(20 * time.Minute)
	for _, at := range []int64{set + hour, set + 9*hour} {
		assert.Equal(t, timeline.Interval{From: at - 10*hour, To: at + 1}, c.Convert(instant(at+epoch)))
	}
}

// TestWholeProfile: an interval across a step covers its times by both differences.
func TestWholeProfile(t *testing.T) {
	m := newMachine()
	m.pass(time.Minute)
	set := m.boot
	m.offset += second
	c := m.pass(time.Minute)
	unix := timeline.Interval{From: set - 5*second + epoch, To: set + 5*second + epoch}
	assert.Equal(t, timeline.Interval{From: set - 6*second, To: set + 5*second}, c.Convert(unix))
}

// TestErrors: a change within the error is no step, bad readings are dropped, and intervals are
// wider by the error of the best reading.
func TestErrors(t *testing.T) {
	m := newMachine()
	m.err, m.wrong = 1000, 700
	m.tracker = NewTracker(time.Hour, m.tracker.read)
	m.err, m.wrong = 2000, -1900
	c := m.pass(time.Minute)
	at := m.boot - hour
	assert.Equal(t, timeline.Interval{From: at - 1700, To: at + 301}, c.Convert(instant(at+epoch)))
	m.err, m.wrong = 100, 100
	c = m.pass(time.Minute)
	assert.Equal(t, timeline.Interval{From: at - 200, To: at + 1}, c.Convert(instant(at+epoch)))
	m.err, m.wrong = 2*worst, -2*worst
	c = m.pass(time.Minute)
	assert.Len(t, c.spans, 1)
	m.err, m.wrong = 100, 1000
	c = m.pass(time.Minute)
	assert.Len(t, c.spans, 2, "more than both errors")
	assert.LessOrEqual(t, c.spans[1].from, m.boot-2*60*second, "nothing is known of the time without a good reading")
}

func TestWhatIsLongAgoIsForgotten(t *testing.T) {
	m := newMachine()
	var c *Clock
	for range 100 {
		m.offset += hour
		c = m.pass(5 * time.Minute)
	}
	assert.LessOrEqual(t, len(c.spans), 5)
	assert.Less(t, m.boot-hour, c.Convert(instant(m.unix())).From)
	assert.Equal(t, int64(math.MinInt64), c.Convert(instant(m.unix()-20*hour)).From)
}

// TestForgottenSteps: a time older than the last forgotten step can be any time before that
// step.
func TestForgottenSteps(t *testing.T) {
	m := newMachine()
	m.pass(time.Hour)
	long := m.unix() - 10*60*second // by the difference at that time
	m.offset -= 30 * second
	c := m.pass(time.Hour)
	at := timeline.Interval{From: m.boot - hour - 10*60*second, To: m.boot - hour - 10*60*second + 1}
	assert.Equal(t, at, c.Convert(instant(long)))
	before := m.unix() - 30*60*second
	m.offset += second
	c = m.pass(10 * time.Second)
	got := c.Convert(instant(long))
	assert.Equal(t, int64(math.MinInt64), got.From)
	assert.GreaterOrEqual(t, got.To, at.To)
	assert.Equal(t, instant(m.boot-30*60*second-10*second), c.Convert(instant(before)), "steps since are known")
	m.err = 100
	m.offset += second
	c = m.pass(10 * time.Second)
	assert.Equal(t, int64(math.MinInt64), c.Convert(instant(long)).From, "also after another step")
}

func BenchmarkConvert(b *testing.B) {
	m := newMachine()
	m.offset += second
	c := m.pass(time.Hour)
	unix := instant(m.unix())
	b.ReportAllocs()
	var sink timeline.Interval
	for b.Loop() {
		sink = c.Convert(unix)
	}
	_ = sink
}
