// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A threadSampler finds the samples in the records of its event, and puts them into an outbox. All times are on the clock of
// the records, in nanoseconds.
type threadSampler interface {
	// begin is called once, when recording has begun. All records of later times will follow.
	begin(from int64)

	// record applies a record. It is called for each record, in the order of time, while the names are those of the record's
	// time. certain reports whether all earlier records were applied.
	record(ctx context.Context, r *perfring.Record, certain bool)

	// confirm applies what a batch says about records that are missing. It is called after record for those of the batch.
	confirm(ctx context.Context, b *perfring.Batch)

	// endInterval ends an interval with a batch that was confirmed. It returns the time of the end, which samples come before.
	endInterval(ctx context.Context, b *perfring.Batch) (end int64)

	// spent returns the time in which there may be, on average, as many records as there were in this interval. If that is
	// as long as a whole interval, the session pauses to make up for it.
	spent() time.Duration

	// isOutdated reports whether a new set of rings would record threads that these do not.
	isOutdated() bool
}

// session turns the records of one set of rings into messages.
type session struct {
	rings    *perfring.Reader
	method   method
	located  *timeline.Image // the core kernel as it was located before the session; nil if it was not
	sampler  threadSampler
	out      *outbox
	interval time.Duration
	flush    time.Time // when the interval ends, and message is sent
	refresh  time.Time // when to look for CPUs that came online
	since    int64     // when recording began, or resumed after a pause; earlier records are left out
}

// pollInterval is the time after which the rings are read even if none is half
// full: threads must be named while they live.
const pollInterval = 200 * time.Millisecond

// refreshInterval is the time between two checks for CPUs that came online.
const refreshInterval = time.Second

// newSession returns a session with rings that were open at start.
func newSession(of *Sampler, opened opened, cgroups *cgroups, start time.Time) *session {
	names := &names{
		threads: newThreads(of.Options.Procfs), cgroups: cgroups,
		nameless: opened.nameless != nil || len(opened.method.cpus) > 0,
	}
	s := &session{
		rings: opened.rings, method: opened.method, out: newOutbox(of, opened.method.kind, names, start),
		interval: of.Options.Interval, since: opened.at,
	}
	s.sampler = s.method.sampler(s.out)
	s.beginInterval()
	if of.First > 0 {
		s.flush = start.Add(of.First)
	}
	return s
}

// beginInterval begins an interval, which can take several messages.
func (s *session) beginInterval() { s.flush = time.Now().Add(s.interval) }

// isOutdated reports whether a new session would sample more: the kernel was located since this one began, and addresses in it
// are missing; or threads are.
func (s *session) isOutdated() bool {
	return s.method.hidden && s.out.of.Options.core() != s.located || s.sampler.isOutdated()
}

// run reads records until ctx is done or the session is outdated; then it sends the rest.
func (s *session) run(ctx context.Context) error {
	s.noteRings()
	s.out.names.readAll()
	s.sampler.begin(s.since)
	for {
		deadline := time.Now().Add(pollInterval)
		if s.flush.Before(deadline) {
			deadline = s.flush
		}
		err := s.rings.Wait(ctx, deadline)
		if time.Now().After(s.refresh) { // right before the records: all that are after a blind interval come later
			err = errors.Join(err, s.refreshCPUs())
		}
		err = errors.Join(err, s.add(ctx, s.rings.Poll()))
		switch now := time.Now(); {
		case err != nil:
		case s.isOutdated():
			err = errOutdated
		case s.sampler.spent() >= s.interval:
			err = s.pause(ctx)
		case !now.Before(s.flush):
			err = s.endInterval(ctx, s.rings.Poll)
		}
		if errors.Is(err, perfring.ErrTasks) { // there are more threads, or CPUs, than when the session began
			err = errOutdated
		}
		if err != nil {
			_ = s.endInterval(ctx, s.rings.Flush) // nothing follows
			return err
		}
	}
}

func (s *session) refreshCPUs() error {
	s.refresh = time.Now().Add(refreshInterval)
	err := s.rings.RefreshCPUs(false)
	s.noteRings()
	return err
}

// noteRings notes what the rings record, for messages.
func (s *session) noteRings() {
	s.out.counts.CPUs, s.out.counts.Tasks = s.rings.CPUs(), s.rings.Tasks()
}

// endInterval reads the last batch of an interval, and sends the message.
func (s *session) endInterval(ctx context.Context, read func() perfring.Batch) error {
	err := s.refreshCPUs()
	b := read()
	err = errors.Join(err, s.add(ctx, b))
	s.out.send(ctx, timeOf(s.sampler.endInterval(ctx, &b)))
	s.beginInterval()
	return err
}

// add applies a batch. Its error says that cgroups are not what they were when the session began.
func (s *session) add(ctx context.Context, b perfring.Batch) error {
	err := s.out.begin(&b)
	for i := range b.Records {
		r := &b.Records[i]
		s.out.names.advance(r.Time)
		if s.since <= r.Time {
			s.sampler.record(ctx, r, r.Time < b.Certain)
		}
	}
	s.out.names.advance(math.MaxInt64)
	s.sampler.confirm(ctx, &b)
	return err
}

// pause ends an interval early and records nothing for a while: as long, on average, as it takes until there may have been
// as many records as there were. The length of the pause is random: what happens at regular times is then neither always
// in it, nor never. The message has the parts of waits up to its end, if they have reached the threshold by then: the next
// sampler begins without waits.
//
//	switches  ║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║
//	recorded  ├──────┤          ├──────┤  ├──────┤
//	message   ───────▶          ───────▶  ───────▶
func (s *session) pause(ctx context.Context) error {
	elapsed := s.interval - time.Until(s.flush)
	rest := s.sampler.spent() - elapsed
	if err := s.endInterval(ctx, s.rings.Poll); err != nil || rest <= 0 {
		return err
	}
	if err := s.rings.Pause(); err != nil {
		return err
	}
	s.since = math.MaxInt64
	s.sampler = s.method.sampler(s.out) // waits were reported up to the end of the interval
	err := s.readNames(ctx, rand.N(2*rest))
	err = errors.Join(err, s.rings.Resume())
	s.since = perfring.Monotonic.Now()
	s.sampler.begin(s.since)
	s.out.resume(timeOf(s.since))
	s.beginInterval()
	if err == nil && s.out.counts.Tasks != nil { // the kernel may have ended events of a thread that goes on
		err = errOutdated
	}
	return err
}

// readNames applies what is recorded in a pause: names and cgroups. Their rings are small, and do not wake this process.
func (s *session) readNames(ctx context.Context, pause time.Duration) error {
	for end := time.Now().Add(pause); ; {
		err := s.add(ctx, s.rings.Poll())
		s.out.names.threads.forgetExited() // nothing is sampled
		left := time.Until(end)
		if err != nil || left <= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(left, pollInterval)):
		}
	}
}

// timeOf returns the time of a reading of the records' clock. It has a monotonic reading, too: the wall clock may be set.
func timeOf(at int64) (t time.Time) {
	const tries = 5 // the two clocks can be read at different times if this process is interrupted
	least := int64(math.MaxInt64)
	for range tries {
		before := perfring.Monotonic.Now()
		now := time.Now()
		if took := perfring.Monotonic.Now() - before; took < least {
			least, t = took, now.Add(time.Duration(at-before-took/2))
		}
	}
	return t
}
