// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"math"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// times are the times of a message's samples, on the clock of the snapshot. They are read
// only where there is code that has not been there forever.
type times struct {
	m       *message
	given   Known
	history int64 // nanoseconds; see Options.History
	users   []user

	built    bool
	span     timeline.Interval   // all of them
	profiles []timeline.Interval // of samples without timestamps, by profile
	clockOff int                 // profiles whose timestamps lie outside this host's clock range
}

// ahead is how far ahead of this machine's clock a time may be.
const ahead = int64(5 * time.Second)

// whole returns an interval that holds the times of all samples of the message.
func (t *times) whole() timeline.Interval {
	if t.built {
		return t.span
	}
	t.built = true
	if t.given.Clock == nil {
		t.span = timeline.Present
		return t.span
	}
	t.span = timeline.Interval{From: math.MaxInt64, To: math.MinInt64}
	i := 0
	t.m.eachProfile(func(_ int, _ string, profile pprofile.Profile) {
		t.profiles = append(t.profiles, t.profileTime(profile))
		if t.users[i] != userForeign {
			t.readSamples(i, profile)
		}
		i++
	})
	return t.span
}

// profileTime returns the time of the samples of a profile that have no timestamps.
func (t *times) profileTime(profile pprofile.Profile) timeline.Interval {
	from := unixTime(profile.Time())
	duration := int64(min(profile.DurationNano(), math.MaxInt64/2))
	return t.given.Clock.Convert(timeline.Interval{From: from, To: from + max(1, duration)})
}

// readSamples adds the times of the samples of profile i to the span. Each is converted: what
// is converted together can come out shorter, if no clock showed some of it.
func (t *times) readSamples(i int, profile pprofile.Profile) {
	var all []timeline.Interval
	stamps := timeline.Interval{From: math.MaxInt64, To: math.MinInt64}
	samples := profile.Samples()
	for k := range samples.Len() {
		sample := samples.At(k)
		all = t.ofSample(all[:0], i, sample)
		for _, at := range all {
			t.span = t.span.Union(at)
		}
		stamps = stamps.Union(hullOf(sample.TimestampsUnixNano()))
	}
	if stamps.From > stamps.To {
		return
	}
	at := t.given.Clock.Convert(stamps)
	t.span = t.span.Union(at)
	if at.From > t.given.Now+ahead || at.To < t.given.Now-t.history {
		t.clockOff++
	}
}

// hullOf returns the interval from the first to the last of timestamps.
func hullOf(stamps pcommon.UInt64Slice) timeline.Interval {
	span := timeline.Interval{From: math.MaxInt64, To: math.MinInt64}
	for k := range stamps.Len() {
		span = span.Union(timeline.Instant(unixTime(pcommon.Timestamp(stamps.At(k)))))
	}
	return span
}

// unixTime returns a time of a message, one far in the future for what no clock shows.
func unixTime(t pcommon.Timestamp) int64 {
	return int64(min(t, math.MaxInt64/2))
}

// ofSample appends the times of a sample of profile i for each of which it has a part:
// one for each of its timestamps or, if it cannot be divided, one for all of them.
func (t *times) ofSample(dst []timeline.Interval, i int, s pprofile.Sample) []timeline.Interval {
	stamps := s.TimestampsUnixNano()
	switch {
	case t.given.Clock == nil:
		return append(dst, timeline.Present)
	case stamps.Len() == 0:
		return append(dst, t.profiles[i])
	case !isDividable(s):
		return append(dst, t.given.Clock.Convert(hullOf(stamps)))
	}
	for k := range stamps.Len() {
		at := timeline.Instant(unixTime(pcommon.Timestamp(stamps.At(k))))
		dst = append(dst, t.given.Clock.Convert(at))
	}
	return dst
}

// isDividable reports whether it is clear which values belong to which timestamps.
func isDividable(s pprofile.Sample) bool {
	n := s.Values().Len()
	return n == 0 || n == s.TimestampsUnixNano().Len()
}
