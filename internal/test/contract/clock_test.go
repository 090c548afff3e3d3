// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"time"

	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// wallClock is the first offset of the wall clock from the kernel's clock, in nanoseconds.
const wallClock = int64(1_700_000_000) * int64(time.Second)

// after is how long producers may keep to the time from before a step (section 5.3).
const after = 5 * int64(time.Minute)

// lag is how long before a step a sample may be taken whose time is converted after it.
const lag = 10 * int64(time.Second)

// A clockStep is one setting of the wall clock, which happened between two readings.
type clockStep struct {
	before, at, seen int64
	offset           int64 // from then on
}

// A modelClock converts times by the steps of the wall clock.
type modelClock struct {
	steps []clockStep // the first is the time before all others
	clock *realtime.Clock
}

// newClock returns a clock that is set up to twice, and read once a second.
func (w *world) newClock() *modelClock {
	const second = int64(time.Second)
	r := w.r
	began := w.first - 900*second
	c := &modelClock{steps: []clockStep{{before: began, at: began, seen: began, offset: wallClock}}}
	for range min(r.Intn(3), *modelSteps) {
		step := int64(1+r.Intn([]int{20, 3000}[r.Intn(2)])) * ms
		if r.Intn(2) == 0 {
			step = -step
		}
		at := w.first + r.Int63n(w.now-w.first+1)
		if r.Intn(3) == 0 {
			at = w.first - int64(1+r.Intn(400))*second
		}
		last := c.steps[len(c.steps)-1]
		if at < last.at+10*second || at >= w.now {
			continue
		}
		before := at - 1 - (at-1-began)%second // a look at that instant sees it
		c.steps = append(c.steps, clockStep{before: before, at: at, seen: before + second, offset: last.offset + step})
	}
	boot := began
	tracker := realtime.NewTracker(time.Hour, func() realtime.Reading {
		return realtime.Reading{Boot: boot, Offset: c.offset(boot), Error: ms / 10}
	})
	for ; boot <= w.now+second; boot += second {
		_, c.clock = tracker.Now()
	}
	return c
}

// offset returns the wall clock's offset at a time of the kernel's clock.
func (c *modelClock) offset(boot int64) int64 {
	offset := c.steps[0].offset
	for _, s := range c.steps[1:] {
		if s.at <= boot {
			offset = s.offset
		}
	}
	return offset
}

// unix returns the Unix time that the wall clock showed. A late producer, which has not yet synchronized its
// clock, still shows the time from before the step.
func (c *modelClock) unix(boot int64, late bool) uint64 {
	if late {
		return uint64(boot + c.offset(boot-after+int64(time.Second)*2))
	}
	return uint64(boot + c.offset(boot))
}

// interval returns the union of all times at which the wall clock can have shown an interval. If it never
// showed the interval, all offsets count.
func (c *modelClock) interval(from, to int64) timeline.Interval {
	var possible, all []timeline.Interval
	for i, s := range c.steps {
		at := timeline.Interval{From: from - s.offset, To: to - s.offset + 1}
		all = append(all, at)
		if (i == 0 || at.To > s.before-lag) && (i+1 == len(c.steps) || at.From <= c.steps[i+1].seen+after) {
			possible = append(possible, at)
		}
	}
	if len(possible) == 0 {
		possible = all
	}
	q := possible[0]
	for _, at := range possible {
		q = q.Union(at)
	}
	return q.Widened(ms / 5)
}
