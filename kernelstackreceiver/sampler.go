package kernelstackreceiver

import (
	"context"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// sampler turns the records of one set of rings into messages.
type sampler struct {
	receiver *kernelStacks
	rings    *perfring.Reader
	event    perfring.Sampling
	threads  *threads
	message  *message
	start    int64     // of the message, in nanoseconds since the Unix epoch
	flush    time.Time // when to send it
	refresh  time.Time // when to look for CPUs that came online
}

// refreshInterval is the time between two looks at which CPUs are online.
const refreshInterval = time.Second

// newSampler returns a sampler of rings of the event, which were opened after
// start.
func newSampler(r *kernelStacks, rings *perfring.Reader, event perfring.Sampling, start time.Time) *sampler {
	s := &sampler{receiver: r, rings: rings, event: event, threads: newThreads(r.config.Procfs)}
	s.begin(start.UnixNano())
	return s
}

func (s *sampler) begin(start int64) {
	s.message = newMessage(s.event, s.receiver.version)
	s.start = start
	s.flush = time.Now().Add(s.receiver.config.Interval)
}

// run reads records until ctx is done; then it sends on what is left.
func (s *sampler) run(ctx context.Context) error {
	for {
		deadline := time.Now().Add(pollInterval)
		if s.flush.Before(deadline) {
			deadline = s.flush
		}
		err := s.rings.Wait(ctx, deadline)
		s.add(ctx, s.rings.Drain())
		if now := time.Now(); err == nil && now.After(s.refresh) {
			s.refresh = now.Add(refreshInterval)
			err = s.rings.RefreshCPUs(false)
		}
		if err != nil {
			s.finish(ctx)
			return err
		}
		if !time.Now().Before(s.flush) {
			s.send(ctx, time.Now().Add(-window))
		}
	}
}

// finish sends on what is in the rings and in the message.
func (s *sampler) finish(ctx context.Context) {
	s.add(ctx, s.rings.Flush())
	s.send(ctx, time.Now())
}

// add adds samples to the message and counts what was lost.
func (s *sampler) add(ctx context.Context, b perfring.Batch) {
	_, offset, _ := perfring.Monotonic.UnixOffset()
	telemetry := s.receiver.telemetry
	if b.Lost > 0 {
		telemetry.ReceiverKernelstackLostRecords.Add(ctx, int64(b.Lost))
	}
	for i := range b.Records {
		r := &b.Records[i]
		switch r.Type {
		case perfring.TypeSample:
			if len(r.Stack) == 0 && !r.Guest {
				s.receiver.count(ctx, 1, outcomeNoStack)
				continue
			}
			at := r.Time + offset
			if s.message.events == s.receiver.config.MaxSamples {
				s.send(ctx, time.Unix(0, at))
			}
			s.message.add(r, uint64(at), s.threads.name(r.TID))
		case perfring.TypeThrottle:
			telemetry.ReceiverKernelstackThrottled.Add(ctx, 1)
		default:
			s.threads.note(r)
		}
	}
}

// send sends the message on, of samples up to end, and begins the next.
func (s *sampler) send(ctx context.Context, end time.Time) {
	s.receiver.send(ctx, s.message, s.start, end.UnixNano())
	s.threads.forgetExited()
	s.begin(end.UnixNano())
}
