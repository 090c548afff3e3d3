package rewrite

import (
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// when is an instant, or the time of a profile, on the clock of the snapshot: one
// interval; two if the wall clock was set back, so that it showed the same time
// twice; none if it never was that time.
type when struct {
	at [2]symtab.Interval
	n  uint8
}

func oneInterval(at symtab.Interval) when { return when{at: [2]symtab.Interval{at}, n: 1} }

// times are the times of a message's samples.
type times struct {
	built    bool
	span     when // all of them
	unplaced bool // some of them never were
	profiles []profileTimes
	current  when // the one that is visited
	scratch  []symtab.Interval
}

// profileTimes are those of a profile, 5.1.
type profileTimes struct {
	whole when // of samples that have no timestamps

	// notOurs says that the timestamps of samples are not of this machine's clock.
	// They count as the time before the message came.
	notOurs bool
}

// ahead is how far ahead of this machine's clock a time may be.
const ahead = int64(5 * time.Second)

func (t *times) end() { *t = times{profiles: t.profiles[:0], scratch: t.scratch[:0]} }

// wholeSpan returns the time of all samples of the message.
func (p *pass) wholeSpan() *when {
	if !p.times.built {
		p.readTimes()
	}
	return &p.times.span
}

// readTimes finds out from when the samples are. It is needed only where there is
// code that has not been there forever.
func (p *pass) readTimes() {
	t := &p.times
	t.built = true
	if p.known.Clock == nil {
		t.span = oneInterval(symtab.Now)
		return
	}
	span := symtab.Interval{From: math.MaxInt64, To: math.MinInt64}
	p.eachProfile(func(_ int, profile pprofile.Profile, u user) {
		if u == userForeign { // of another clock, and not looked up
			t.profiles = append(t.profiles, profileTimes{notOurs: true})
			return
		}
		times, stamps := p.readProfile(profile)
		t.profiles = append(t.profiles, times)
		for _, at := range times.whole.at[:times.whole.n] {
			span.From, span.To = min(span.From, at.From), max(span.To, at.To)
		}
		if times.notOurs || stamps.From > stamps.To {
			return
		}
		for _, at := range p.convert(stamps) {
			span.From, span.To = min(span.From, at.From), max(span.To, at.To)
		}
	})
	if span.From < span.To {
		t.span = oneInterval(span)
	}
}

// readProfile returns the times of a profile, and the interval of its timestamps.
func (p *pass) readProfile(profile pprofile.Profile) (t profileTimes, stamps symtab.Interval) {
	duration := int64(min(profile.DurationNano(), math.MaxInt64/2))
	header := symtab.Instant(unixTime(profile.Time()))
	header.To = max(header.To, header.From+duration)
	headerIsOurs := header.From > 0 && p.isOurs(header)

	ours, others := 0, 0 // samples
	stamps = symtab.Interval{From: math.MaxInt64, To: math.MinInt64}
	p.eachSample(profile, func(s pprofile.Sample) {
		all := s.TimestampsUnixNano()
		in, out := 0, 0 // timestamps
		for i := range all.Len() {
			if at := unixTime(pcommon.Timestamp(all.At(i))); at > 0 {
				possible := p.convert(symtab.Instant(at))
				p.times.unplaced = p.times.unplaced || len(possible) == 0
				if slices.ContainsFunc(possible, func(at symtab.Interval) bool { return !p.isTooOld(at) }) {
					in++
				} else {
					out++
				}
				stamps.From, stamps.To = min(stamps.From, at), max(stamps.To, at+1)
			}
		}
		if in > 0 && in >= out || in+out == 0 && headerIsOurs {
			ours++
		} else {
			others++
		}
	})
	t.notOurs = others > ours
	if t.notOurs || !headerIsOurs {
		from := p.known.Now - min(duration, int64(p.opts.History))
		t.whole = oneInterval(symtab.Interval{From: from, To: p.known.Now + 1})
		if others > 0 && t.notOurs {
			p.clockOff++
		}
		return t, stamps
	}
	t.whole = p.whenOf(header)
	return t, stamps
}

// unixTime returns a time of a message, 0 for one that cannot be.
func unixTime(t pcommon.Timestamp) int64 {
	if t >= math.MaxInt64/2 {
		return 0
	}
	return int64(t)
}

// isOurs reports whether the message can have a time, by this machine's clock.
func (p *pass) isOurs(unix symtab.Interval) bool {
	return slices.ContainsFunc(p.convert(unix), func(at symtab.Interval) bool { return !p.isTooOld(at) })
}

func (p *pass) isTooOld(at symtab.Interval) bool { return at.To <= p.known.Now-int64(p.opts.History) }

// convert returns the times of the snapshot's clock that a time can be: none that is
// yet to come, nor one that is too long ago if there is another.
func (p *pass) convert(unix symtab.Interval) []symtab.Interval {
	all := p.known.Clock.Convert(p.times.scratch[:0], unix)
	all = slices.DeleteFunc(all, func(at symtab.Interval) bool { return at.From >= p.known.Now+ahead })
	if len(all) > 1 && !p.isTooOld(all[len(all)-1]) { // the latest
		all = slices.DeleteFunc(all, p.isTooOld)
	}
	p.times.scratch = all
	return all
}

func (p *pass) whenOf(unix symtab.Interval) (w when) {
	all := p.convert(unix)
	if len(all) <= len(w.at) {
		w.n = uint8(copy(w.at[:], all))
	}
	return w
}

// eachInstant calls visit for the instants of a sample of profile i: one for each of
// its timestamps or, if it cannot be divided, one for all of them.
func (p *pass) eachInstant(i int, s pprofile.Sample, visit func(at *when)) {
	whole := p.wholeSpan()
	if p.known.Clock == nil {
		visit(whole)
		return
	}
	t := &p.times.profiles[i]
	stamps := s.TimestampsUnixNano()
	if t.notOurs || stamps.Len() == 0 {
		visit(&t.whole)
		return
	}
	if !isDividable(s) {
		p.times.current = p.hull(stamps, t)
		visit(&p.times.current)
		return
	}
	for k := range stamps.Len() {
		at := unixTime(pcommon.Timestamp(stamps.At(k)))
		if at == 0 {
			visit(&t.whole)
			continue
		}
		p.times.current = p.whenOf(symtab.Instant(at))
		visit(&p.times.current)
	}
}

// isDividable reports whether it is clear which values belong to which timestamps.
func isDividable(s pprofile.Sample) bool {
	n := s.Values().Len()
	return n == 0 || n == s.TimestampsUnixNano().Len()
}

// hull returns the interval from the first to the last of timestamps.
func (p *pass) hull(stamps pcommon.UInt64Slice, t *profileTimes) when {
	span := symtab.Interval{From: math.MaxInt64, To: math.MinInt64}
	for k := range stamps.Len() {
		if at := unixTime(pcommon.Timestamp(stamps.At(k))); at > 0 {
			span.From, span.To = min(span.From, at), max(span.To, at+1)
		}
	}
	if span.From > span.To {
		return t.whole
	}
	return p.whenOf(span)
}
