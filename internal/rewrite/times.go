// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"math"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// times are the times of the samples, on the clock of the snapshot. They are read only if the
// message has frames for which the time matters.
type times struct {
	pass    *pass
	sources Sources

	isRead   bool
	span     timeline.Interval   // of all samples
	profiles []timeline.Interval // by profile, the time of samples without timestamps
	clockOff int                 // the number of profiles whose times lie outside this host's clock range
}

// maxAhead is how far ahead of this machine's clock a time may be.
const maxAhead = int64(5 * time.Second)

func (t *times) open(p *pass, sources Sources) {
	*t = times{pass: p, sources: sources, profiles: t.profiles[:0]}
}

func (t *times) close() { t.sources, t.clockOff = Sources{}, 0 }

// whole returns an interval that holds the times of all samples of this host.
func (t *times) whole() timeline.Interval {
	if !t.isRead {
		t.isRead = true
		t.read()
	}
	return t.span
}

func (t *times) read() {
	if t.sources.Clock == nil {
		t.span = timeline.Present
		return
	}
	t.span = timeline.Never
	for of := range t.pass.message.EachProfile() {
		t.profiles = append(t.profiles, t.ofProfile(of.Profile))
		if t.pass.producers[of.Number] != symbolize.OtherHost {
			t.readSamples(of)
		}
	}
}

// ofProfile returns the time of the samples of a profile that have no timestamps.
func (t *times) ofProfile(profile pprofile.Profile) timeline.Interval {
	from := unixTime(profile.Time())
	duration := int64(min(profile.DurationNano(), math.MaxInt64/2))
	return t.sources.Clock.Convert(timeline.Interval{From: from, To: from + max(1, duration)})
}

// precedesBoot reports whether a profile is from before this machine started, by its time or, if it has none, by the first
// timestamp of its first sample (contract 2.1).
func (t *times) precedesBoot(profile pprofile.Profile) bool {
	if t.sources.Clock == nil {
		return false
	}
	if profile.Time() != 0 {
		return t.ofProfile(profile).To <= 0
	}
	if profile.Samples().Len() == 0 || profile.Samples().At(0).TimestampsUnixNano().Len() == 0 {
		return false
	}
	first := profile.Samples().At(0).TimestampsUnixNano().At(0)
	return first != 0 && t.sources.Clock.Convert(timeline.Instant(unixTime(pcommon.Timestamp(first)))).To <= 0
}

// readSamples adds the times of the samples of a profile to the span. Each is converted on its own: an interval
// that contains a time which no clock has shown can become shorter.
func (t *times) readSamples(of otlp.ProfileOf) {
	var all []timeline.Interval
	stamps := timeline.Never
	samples := of.Profile.Samples()
	for k := range samples.Len() {
		sample := samples.At(k)
		all = t.appendTimes(all[:0], of.Number, sample)
		for _, at := range all {
			t.span = t.span.Union(at)
		}
		stamps = stamps.Union(unionOf(sample.TimestampsUnixNano()))
	}
	if stamps == timeline.Never {
		return
	}
	at := t.sources.Clock.Convert(stamps)
	t.span = t.span.Union(at)
	if at.From > t.sources.Now+maxAhead || at.To < t.sources.Now-int64(t.pass.opts.History) {
		t.clockOff++
	}
}

// unionOf returns the interval from the first to the last of some timestamps.
func unionOf(stamps pcommon.UInt64Slice) timeline.Interval {
	union := timeline.Never
	for k := range stamps.Len() {
		union = union.Union(timeline.Instant(unixTime(pcommon.Timestamp(stamps.At(k)))))
	}
	return union
}

// unixTime returns a time of a message as an int64. Times that do not fit lie far in the future, where no clock
// has been.
func unixTime(t pcommon.Timestamp) int64 { return int64(min(t, math.MaxInt64/2)) }

// appendTimes appends the times for which a sample of a profile is looked up (contract 5.3): one for each timestamp
// or, if the sample cannot be divided, one for all of them. The times of the message must have been read.
func (t *times) appendTimes(dst []timeline.Interval, profile int, s pprofile.Sample) []timeline.Interval {
	stamps := s.TimestampsUnixNano()
	switch {
	case t.sources.Clock == nil:
		return append(dst, timeline.Present)
	case stamps.Len() == 0:
		return append(dst, t.profiles[profile])
	case !isDividable(s):
		return append(dst, t.sources.Clock.Convert(unionOf(stamps)))
	}
	for k := range stamps.Len() {
		at := timeline.Instant(unixTime(pcommon.Timestamp(stamps.At(k))))
		dst = append(dst, t.sources.Clock.Convert(at))
	}
	return dst
}

// isDividable reports whether each value of a sample belongs to one of its timestamps.
func isDividable(s pprofile.Sample) bool {
	n := s.Values().Len()
	return n == 0 || n == s.TimestampsUnixNano().Len()
}
