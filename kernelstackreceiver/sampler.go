package kernelstackreceiver

import (
	"context"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// sampler turns the records of one set of rings into messages.
type sampler struct {
	receiver *Receiver
	rings    *perfring.Reader
	event    perfring.Sampling
	threads  *threads
	message  *message
	start    int64     // of the message, in nanoseconds since the Unix epoch
	flush    time.Time // when to send it
}

// newSampler returns a sampler of rings of the event, which were opened after
// start.
func newSampler(r *Receiver, rings *perfring.Reader, event perfring.Sampling, start time.Time) *sampler {
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
		records, err := s.rings.Read(ctx, deadline)
		s.add(ctx, records)
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
func (s *sampler) add(ctx context.Context, records []perfring.Record) {
	offset := perfring.Monotonic.UnixOffset()
	telemetry := s.receiver.telemetry
	for i := range records {
		r := &records[i]
		switch r.Type {
		case perfring.TypeSample:
			if len(r.Stack) == 0 {
				s.receiver.count(ctx, 1, outcomeNoStack)
				continue
			}
			at := r.Time + offset
			if s.message.events == s.receiver.config.MaxSamples {
				s.send(ctx, time.Unix(0, at))
			}
			s.message.add(r, uint64(at), s.threads.name(r.TID))
		case perfring.TypeLost:
			telemetry.ReceiverKernelstackLostRecords.Add(ctx, int64(r.Lost))
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
