// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// sessionOf returns a session of a sampler without rings, by the first method for its threads.
func sessionOf(t *testing.T, sampler *Sampler, cgroups *cgroups, start time.Time) *session {
	t.Helper()
	methods, err := sampler.Options.Threads.methods(&sampler.Options, cgroups != nil)
	require.NoError(t, err)
	return newSession(sampler, opened{method: methods[0]}, cgroups, start)
}

// byCycles samples what runs, the idle loop included.
var byCycles = Running{Event: EventCycles, Frequency: 97}

// addAll adds the records of a batch to a session. Records of threads and cgroups come as names; those about the beginning and
// the end of a thread also come with the switches of waits.
func addAll(t *testing.T, s *session, b perfring.Batch) {
	t.Helper()
	records := b.Records
	b.Records = nil
	for _, r := range records {
		switch isName := r.Type == perfring.TypeComm || r.Type == perfring.TypeCgroup; {
		case isName:
			b.Names.Records = append(b.Names.Records, r)
		case r.Type == perfring.TypeFork || r.Type == perfring.TypeExit:
			b.Names.Records = append(b.Names.Records, r)
			if _, isWaiting := s.sampler.(*waiting); isWaiting {
				b.Records = append(b.Records, r)
			}
		default:
			b.Records = append(b.Records, r)
		}
	}
	require.NoError(t, s.add(t.Context(), b))
}

// records has some records of each kind.
var records = []perfring.Record{
	{Type: perfring.TypeThrottle, Time: 3},
	{Type: perfring.TypeThrottle, Time: 4},
	{Type: perfring.TypeComm, Time: 5, PID: 10, TID: 11, Comm: "worker"},
	{Type: perfring.TypeSample, Time: 6, PID: 10, TID: 11, Stack: []uint64{leaf, caller}},
	{Type: perfring.TypeSample, Time: 7, PID: 10, TID: 11}, // of user code, for example
	{Type: perfring.TypeSample, Time: 8, PID: 12, TID: 12, Guest: true},
}

// TestSampler feeds a sampler records that cannot be produced at will. Records that are in no
// message are counted.
func TestSampler(t *testing.T) {
	var sent []*Message
	sampler := &Sampler{
		Options: Options{Threads: byCycles, MaxSamples: 100, Procfs: t.TempDir()},
		Send:    func(_ context.Context, m *Message) { sent = append(sent, m) },
	}
	s := sessionOf(t, sampler, nil, time.Now())
	addAll(t, s, perfring.Batch{Records: records, Lost: 42})
	s.out.send(t.Context(), time.Now())

	require.Len(t, sent, 1)
	m := sent[0]
	assert.Equal(t, []uint64{2, 1, 42, 2}, []uint64{uint64(m.Samples), uint64(m.NoStack), m.Lost, uint64(m.Throttled)})
	require.Len(t, m.Profiles, 1)
	pd := m.Profiles[0]
	checkSent(t, pd)
	samples := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples()
	require.Equal(t, 2, samples.Len())
	dict := pd.Dictionary()
	attributes, err := pprofile.FromAttributeIndices(dict.AttributeTable(), samples.At(0), dict)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"process.pid": int64(10), "thread.id": int64(11), "thread.name": "worker", "cpu.logical_number": int64(0),
	}, attributes.AsRaw())
}

// TestFullMessage: a full message ends when the first sample that does not fit was taken. The
// end has a monotonic reading, so it can be compared even if the wall clock was set.
func TestFullMessage(t *testing.T) {
	var sent []*Message
	sampler := &Sampler{
		Options: Options{Threads: byCycles, MaxSamples: 1, Procfs: t.TempDir()},
		Send:    func(_ context.Context, m *Message) { sent = append(sent, m) },
	}
	start := time.Now()
	s := sessionOf(t, sampler, nil, start)
	first := perfring.Record{Type: perfring.TypeSample, Time: perfring.Monotonic.Now(), Stack: []uint64{leaf}}
	second := first
	second.Time += int64(time.Minute)
	addAll(t, s, perfring.Batch{Records: []perfring.Record{first, second}})
	require.Len(t, sent, 1)
	assert.Contains(t, sent[0].End.String(), " m=+", "a monotonic reading")
	assert.GreaterOrEqual(t, sent[0].End.Sub(start), time.Minute)
	assert.Equal(t, sent[0].End, s.out.counts.Start)
}

// TestUserCode: with User, samples of user code are in the message that they are counted in.
func TestUserCode(t *testing.T) {
	var sent []*Message
	sampler := &Sampler{
		Options: Options{
			Threads: Running{Event: EventClock, Frequency: 97, User: true}, MaxSamples: 2, Procfs: t.TempDir(),
		},
		Send: func(_ context.Context, m *Message) { sent = append(sent, m) },
	}
	s := sessionOf(t, sampler, nil, time.Now())
	addAll(t, s, perfring.Batch{Records: []perfring.Record{
		{Type: perfring.TypeSample, Stack: []uint64{leaf}}, {Type: perfring.TypeSample},
		{Type: perfring.TypeSample}, {Type: perfring.TypeSample},
	}})
	s.out.send(t.Context(), time.Now())
	require.Len(t, sent, 2)
	for i, noStack := range []int{1, 2} {
		assert.Equal(t, 2, sent[i].Samples)
		assert.Equal(t, noStack, sent[i].NoStack)
		checkSent(t, sent[i].Profiles[0])
	}
	user := rewritetest.Samples(sent[1].Profiles[0])
	require.Len(t, user, 1)
	assert.Equal(t, []rewritetest.Frame{{Lines: []rewritetest.Line{{Name: "[user space]", System: "[user space]"}}}}, user[0].Stack)
}

// TestEvents verifies which events the sampler tries, and in which order. Only the timer needs the idle task to sample
// other work on idle CPUs.
func TestEvents(t *testing.T) {
	withSymbols, without := writeKallsyms(t, idleSymbols), t.TempDir()
	for _, c := range []struct {
		name, procfs string
		threads      Running
		want         []perfring.Event
	}{
		{"timer", without, Running{Event: EventClock, Idle: true}, []perfring.Event{perfring.Sampling{Frequency: 10, Idle: true}}},
		{"cycles", without, Running{Event: EventCycles, Idle: true}, []perfring.Event{perfring.Sampling{Frequency: 10, Cycles: true, Idle: true}}},
		{"auto", withSymbols, Running{Event: EventAuto}, []perfring.Event{perfring.Sampling{Frequency: 10, Cycles: true}, perfring.Sampling{Frequency: 10, Idle: true}}},
		{"timer, no symbols", without, Running{Event: EventClock}, []perfring.Event{perfring.Sampling{Frequency: 10}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.threads.Frequency = 10
			methods, err := c.threads.methods(&Options{Procfs: c.procfs}, false)
			require.NoError(t, err)
			var events []perfring.Event
			for _, m := range methods {
				events = append(events, m.event)
			}
			assert.Equal(t, c.want, events)
		})
	}
}

// TestEndOfRunning verifies that a message ends when the next samples begin, but after the samples that were
// held back. These are read even if nothing follows.
func TestEndOfRunning(t *testing.T) {
	s := sessionOf(t, &Sampler{Options: Options{Threads: byCycles, Procfs: t.TempDir()}}, nil, time.Now())
	for _, c := range []struct {
		batch perfring.Batch
		want  int64
	}{
		{perfring.Batch{Certain: 100}, 100},
		{perfring.Batch{Certain: 100, Records: []perfring.Record{sampleAt(90)}}, 100},
		{perfring.Batch{Certain: 100, Records: []perfring.Record{sampleAt(90), sampleAt(110)}}, 111},
	} {
		assert.Equal(t, c.want, s.sampler.endInterval(t.Context(), &c.batch))
	}
	assert.Zero(t, s.sampler.spent(), "there is never a reason to pause")
}

// TestNoNamesOnSomeCPUs: a thread's name is not known if the thread can be renamed on a CPU
// that is not sampled.
func TestNoNamesOnSomeCPUs(t *testing.T) {
	sampler := &Sampler{Options: Options{
		Threads: Running{Event: EventCycles, Frequency: 97, CPUs: []int{0}}, MaxSamples: 100, Procfs: t.TempDir(),
	}}
	s := sessionOf(t, sampler, nil, time.Now())
	addAll(t, s, perfring.Batch{Records: records})
	assert.Equal(t, []string{"", ""}, threadNames(s))
}

// threadNames returns the thread name of each sample in the message; it is empty if there is
// none.
func threadNames(s *session) (names []string) {
	p := s.out.message.profiles[""]
	dict := p.dictionary.tables
	for _, sample := range p.profile.Samples().All() {
		attributes, _ := pprofile.FromAttributeIndices(dict.AttributeTable(), sample, dict)
		name := ""
		if v, ok := attributes.Get(keyThreadName); ok {
			name = v.Str()
		}
		names = append(names, name)
	}
	return names
}

// TestRingsWithoutNames verifies for which errors rings are opened without names.
func TestRingsWithoutNames(t *testing.T) {
	for _, tt := range []struct {
		refused  error
		nameless bool
	}{{perfring.ErrMemory, true}, {syscall.ENOMEM, true}, {perfring.ErrFiles, true}, {perfring.ErrPermission, false}} {
		refused := fmt.Errorf("opening rings: %w", tt.refused)
		_, nameless, err := openWithNames(perfring.Options{Names: perfring.Names{BytesPerCPU: 1}}, func(o perfring.Options) (*perfring.Reader, error) {
			if o.Names.BytesPerCPU > 0 {
				return nil, refused
			}
			return new(perfring.Reader), nil
		})
		if tt.nameless {
			require.NoError(t, err)
			require.ErrorIs(t, nameless, ErrNames)
			require.ErrorIs(t, nameless, tt.refused)
		} else {
			require.NoError(t, nameless)
			require.ErrorIs(t, err, tt.refused)
		}
	}
}
