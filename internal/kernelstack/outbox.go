// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"cmp"
	"context"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// outbox sends samples in messages.
type outbox struct {
	of      *Sampler
	kind    kind
	form    form
	names   *names
	message *message
	counts  Message // the counts of message, without its profiles and its end
	offset  int64   // from the clock of the records to nanoseconds since the Unix epoch
}

// newOutbox returns an outbox whose first message begins at start.
func newOutbox(of *Sampler, k kind, n *names, start time.Time) *outbox {
	o := &outbox{of: of, kind: k, names: n, form: form{
		scopeName: of.Scope, version: of.Version, resource: of.Resource,
		containerID: cmp.Or(of.Options.ContainerID, OnResource), omit: of.Options.Omit,
		functions: new(functions),
	}}
	o.beginMessage(start)
	return o
}

func (o *outbox) beginMessage(start time.Time) {
	o.message = newMessage(o.kind, o.form)
	o.counts = Message{Start: start, CPUs: o.counts.CPUs, Tasks: o.counts.Tasks}
}

// begin begins a batch, and counts the records that it lacks. Its error is that of names.begin.
func (o *outbox) begin(b *perfring.Batch) error {
	_, o.offset, _ = perfring.Monotonic.UnixOffset()
	o.counts.Lost += b.Lost
	o.counts.LostNames += b.Names.Lost
	return o.names.begin(b)
}

func (o *outbox) keeps(pid, tid uint32) bool { return o.of.Keep == nil || o.of.Keep(pid, tid) }

// makeRoom sends the message if it is full. at is the time of the next sample.
func (o *outbox) makeRoom(ctx context.Context, at int64) {
	if o.message.events == o.of.Options.MaxSamples {
		o.send(ctx, timeOf(at))
	}
}

// put puts a sample into the message, which has room for it.
func (o *outbox) put(s *sample) {
	if o.message.add(s, uint64(s.at+o.offset)) && o.of.Options.Containers && !s.owner.known {
		o.counts.NoContainer++
	}
}

// send sends the message, with samples up to end, and begins the next one.
func (o *outbox) send(ctx context.Context, end time.Time) {
	m := o.counts
	m.Profiles = o.message.finish(m.Start.UnixNano(), end.UnixNano())
	m.Samples, m.Waits, m.End = o.message.events, o.message.waits, end
	o.of.Send(ctx, &m)
	o.names.threads.forgetExited()
	o.beginMessage(end)
}

// resume begins the message again after a pause, in which nothing was recorded.
func (o *outbox) resume(start time.Time) {
	o.counts.Paused = start.Sub(o.counts.Start)
	o.counts.Start = start
}
