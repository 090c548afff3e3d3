// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A modelSample is a sample with everything that decides its answers.
type modelSample struct {
	where    string // resource, scope, profile
	serial   any    // of the sample that came
	foreign  bool
	profiler bool
	profile  pprofile.Profile
	sample   pprofile.Sample
	stack    []rewritetest.Frame
}

// isProfiler reports whether a scope belongs to the OTel eBPF profiler (section 2.2).
func isProfiler(scope string) bool {
	path := strings.Split(scope, "/")
	return strings.HasPrefix(scope, profilerScope) || path[len(path)-1] == "ebpf-profiler" || scope == "parca-agent"
}

// samplesOf returns the samples of a message.
func samplesOf(pd pprofile.Profiles) (samples []modelSample) {
	d := pd.Dictionary()
	for i, rp := range pd.ResourceProfiles().All() {
		for j, sp := range rp.ScopeProfiles().All() {
			for k, profile := range sp.Profiles().All() {
				for _, s := range profile.Samples().All() {
					m := modelSample{
						where: fmt.Sprint(i, j, k), foreign: isOther(rp.Resource()), profile: profile, sample: s,
						profiler: isProfiler(sp.Scope().Name()),
					}
					m.serial = d.AttributeTable().At(int(s.AttributeIndices().At(0))).Value().AsRaw()
					for _, at := range d.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
						m.stack = append(m.stack, rewritetest.FrameAt(d, at))
					}
					samples = append(samples, m)
				}
			}
		}
	}
	return samples
}

// times returns the Q of each timestamp of a sample, or the single one of an undivided sample (section 5.3).
func (c *modelCase) times(s *modelSample) []timeline.Interval {
	stamps := s.sample.TimestampsUnixNano().AsRaw()
	var times []timeline.Interval
	for _, stamp := range stamps {
		times = append(times, c.interval(int64(stamp), int64(stamp)))
	}
	values := s.sample.Values().Len()
	switch {
	case len(stamps) == 0:
		from := int64(s.profile.Time())
		return []timeline.Interval{c.interval(from, from+int64(s.profile.DurationNano()))}
	case values > 0 && values != len(stamps): // it cannot be divided
		return []timeline.Interval{c.interval(int64(slices.Min(stamps)), int64(slices.Max(stamps)))}
	}
	return times
}

// interval converts times of the wall clock, the last included.
func (c *modelCase) interval(from, to int64) timeline.Interval {
	if c.known.Clock == nil {
		return timeline.Present
	}
	return c.clock.interval(from, to)
}

// compare compares the samples that came out with the model's answers.
func (c *modelCase) compare(out pprofile.Profiles) {
	parts := map[any][]modelSample{}
	for _, s := range samplesOf(out) {
		parts[s.serial] = append(parts[s.serial], s)
	}
	for _, s := range samplesOf(c.in) {
		var wants [][]want
		distinct := map[string]bool{}
		for _, q := range c.times(&s) {
			a := asker{world: c.world, opts: c.opts, profiler: s.profiler, q: q}
			answer := a.wants(s.stack)
			if s.foreign {
				answer = foreign(&a, s.stack)
			}
			for _, w := range answer {
				c.may[group(w.why)] = true
				if len(w.or) == 0 {
					c.whys[group(w.why)] = true
				}
				for _, or := range w.or {
					c.may[group(or.why)] = true
				}
			}
			wants = append(wants, answer)
			distinct[key(answer)] = true
		}
		if n := len(parts[s.serial]); n > len(distinct) {
			c.failf("sample %v was divided into %d, %d are enough", s.serial, n, len(distinct))
		}
		c.compareSample(&s, parts[s.serial], wants)
	}
}

// foreign answers the stacks of another host's resource.
func foreign(a *asker, stack []rewritetest.Frame) (wants []want) {
	for _, f := range stack {
		why := ""
		if a.isCandidate(f) {
			why = "foreign"
		}
		if why != "" && isNamed(f) && !a.opts.All {
			why = "named"
		}
		wants = append(wants, a.hidden(unchanged(f, why)))
	}
	return wants
}

// key returns the part of answers that distinguishes them.
func key(wants []want) string {
	var b strings.Builder
	for _, w := range wants {
		fmt.Fprintf(&b, "%+v%s", w.frame, w.label)
		for _, m := range w.mappings {
			fmt.Fprintf(&b, "%+v", m)
		}
	}
	return b.String()
}

// compareSample compares the parts of a sample. wants has the answers for each timestamp, or one for all.
func (c *modelCase) compareSample(s *modelSample, parts []modelSample, wants [][]want) {
	stamps, values := s.sample.TimestampsUnixNano().AsRaw(), s.sample.Values().AsRaw()
	type instant struct {
		stamp uint64
		value int64
	}
	left := map[instant]int{}
	at := map[uint64]int{}
	for i, stamp := range stamps {
		at[stamp] = min(i, len(wants)-1)
		if len(wants) == len(stamps) {
			in := instant{stamp: stamp}
			if len(values) > 0 {
				in.value = values[i]
			}
			left[in]++
		}
	}
	for _, part := range parts {
		ps, pv := part.sample.TimestampsUnixNano().AsRaw(), part.sample.Values().AsRaw()
		isWhole := len(ps) == len(stamps) && len(pv) == len(values)
		if part.where != s.where || part.sample.LinkIndex() != s.sample.LinkIndex() ||
			!reflect.DeepEqual(part.sample.AttributeIndices().AsRaw(), s.sample.AttributeIndices().AsRaw()) {
			c.failf("sample %v: where it is, link or attributes were changed", s.serial)
		}
		if len(wants) != len(stamps) || len(stamps) == 0 {
			if !isWhole || len(parts) != 1 {
				c.failf("sample %v was divided", s.serial)
			}
			c.compareStack(s, part.stack, wants[0])
			continue
		}
		for i, stamp := range ps {
			in := instant{stamp: stamp}
			if len(pv) > 0 {
				in.value = pv[i]
			}
			left[in]--
			c.compareStack(s, part.stack, wants[at[stamp]])
		}
	}
	for in, n := range left {
		if n != 0 {
			c.failf("sample %v: %v is there %d times too few", s.serial, in, n)
		}
	}
}

// compareStack compares a stack that came out.
func (c *modelCase) compareStack(s *modelSample, got []rewritetest.Frame, wants []want) {
	if len(got) != len(wants) {
		c.failf("sample %v: %d frames of %d", s.serial, len(got), len(wants))
		return
	}
	for i := range wants {
		if diff := wants[i].differs(got[i]); diff != "" {
			before := "nothing"
			if i > 0 {
				before = show(s.stack[i-1])
			}
			c.failf("sample %v frame %d of %d (profiler %v): %s: %s\n\t\tcame as %s\n\t\tbehind %s",
				s.serial, i, len(got), s.profiler, wants[i].why, diff, show(s.stack[i]), before)
		}
	}
}
