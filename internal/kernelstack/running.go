// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// Running samples what runs.
type Running struct {
	Event     string // EventClock, EventCycles or EventAuto
	Frequency int    // samples per second on each CPU
	Idle      bool   // sample the idle loop, too

	// User makes the timer also sample user code. These samples have a stack of one frame, which has a name.
	User bool

	// CPUs are the numbers of the CPUs to sample; empty for all. If it is set, threads have no
	// names, because renames on other CPUs are not recorded.
	CPUs []int
}

// The events to sample by.
const (
	EventCycles = "cycles"
	EventClock  = "cpu-clock"
	EventAuto   = "auto" // cycles, or cpu-clock if there is no cycle counter
)

// methods returns the cycle counter, the timer, or both. The counter need not distinguish the idle loop: a halted CPU counts
// nothing. The timer samples the idle task, unless its idle loop cannot be distinguished from its other work.
func (r Running) methods(o *Options, cgroups bool) (all []method, _ error) {
	event := perfring.Sampling{Frequency: uint64(r.Frequency), User: r.User, Idle: r.Idle, Cgroups: cgroups}
	if r.Event != EventClock {
		cycles := event
		cycles.Cycles = true
		all = append(all, r.by(EventCycles, cycles, idle{}, nil))
	}
	if r.Event != EventCycles {
		var filter idle
		var idleWork error
		if !r.Idle {
			filter, idleWork = readIdle(o)
			event.Idle = idleWork == nil
		}
		all = append(all, r.by(EventClock, event, filter, idleWork))
	}
	return all, nil
}

func (r Running) by(name string, event perfring.Sampling, filter idle, idleWork error) method {
	return method{
		name: name, event: event, cpus: r.CPUs, kind: kindOfSamples(event), missing: Missing{IdleWork: idleWork}, hidden: idleWork != nil,
		sampler: func(out *outbox) threadSampler { return &running{out, filter, r.User} },
	}
}

// kindOfSamples returns the kind of samples that an event takes.
func kindOfSamples(event perfring.Sampling) kind {
	return kind{sampleType: "samples", unit: "count", periodType: "cpu", period: event.Period()}
}

// running samples threads that were interrupted: each record is a sample.
type running struct {
	out  *outbox
	idle idle // whose loop is left out
	user bool // samples of user code are in messages
}

func (n *running) record(ctx context.Context, r *perfring.Record, _ bool) {
	switch r.Type {
	case perfring.TypeSample:
		n.addSample(ctx, r)
	case perfring.TypeThrottle:
		n.out.counts.Throttled++
	default:
	}
}

func (n *running) addSample(ctx context.Context, r *perfring.Record) {
	if !n.out.keeps(r.PID, r.TID) || n.idle.isLoop(r.Stack) {
		return
	}
	noStack := len(r.Stack) == 0 && !r.Guest
	if noStack && !n.user {
		n.out.counts.NoStack++
		return
	}
	n.out.makeRoom(ctx, r.Time)
	if noStack {
		n.out.counts.NoStack++
	}
	n.out.put(&sample{
		stack: addressesOf(r), pid: r.PID, tid: r.TID, cpu: r.CPU, name: n.out.names.ofThread(r.TID, r.Time),
		owner: n.out.names.cgroups.owner(r.InCgroup, r.Time), at: r.Time,
	})
}

// begin does nothing: a sample has no past.
func (*running) begin(int64) {}

// confirm does nothing: a sample is certain, whatever else is missing.
func (*running) confirm(context.Context, *perfring.Batch) {}

// endInterval returns the time up to which all samples are known, or one after the last sample that was held back.
func (*running) endInterval(_ context.Context, b *perfring.Batch) (end int64) {
	if n := len(b.Records); n > 0 {
		end = b.Records[n-1].Time + 1
	}
	return max(end, b.Certain)
}

// spent returns 0: the frequency bounds the number of samples.
func (*running) spent() time.Duration { return 0 }

// isOutdated returns false: all threads are recorded.
func (*running) isOutdated() bool { return false }
