// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// waits pairs the records of threads that leave a CPU and return to one. A thread that leaves has two records, a sample with
// its stack and a switch; a third, another switch, follows on the CPU where it runs again.
//
//	CPU 0   ──sample─out═══╗                                open ──▶ done ──▶ confirmed
//	CPU 1   ───────────────╚═══════════in──────────▶            in      looked
//	                       ◀── wait ──▶
//
// A wait is certain only if no record is missing between its ends: the thread could have run in between. This is not known
// until the CPUs were checked again after its end, because a CPU that comes online has no records before it is noticed.
type waits struct {
	threshold int64 // in nanoseconds; shorter waits are not reported

	leaving map[uint32]*perfring.Record // by CPU that has had records: the sample that its next switch belongs to, or an empty one
	ends    endCode
	exiting map[uint32]uint32 // by CPU: the thread that runs there, and whose end was recorded; nil if last switches are not
	open    map[uint32]wait   // by thread id: waits that have not ended
	blocked blocked           // threads that may have waited since recording began
	done    []interval        // waits that have ended, but are not confirmed yet
	since   perfring.Interval // the blind interval that ends last
	counts  *Message          // counts the waits left out: Short, Unknown, NoStack
}

// A wait is the time that a thread is off the CPU, in nanoseconds of the records' clock.
type wait struct {
	stack         []uint64
	cgroup        uint64
	pid, tid, cpu uint32 // the CPU that it left
	preempted     bool   // it could have gone on
	exiting       bool   // its end was recorded: this may be its last switch
	before        bool   // it began before recording; its stack has numbers of functions, not addresses
	from          int64
	reported      int64 // the time up to which it was reported; from if it was not
}

// interval is the last part of a wait that has ended.
type interval struct {
	sample   sample
	from     int64 // of the wait
	noReturn bool  // the thread has left a CPU again at sample.at, the only field that is set: a record is missing
}

// Unknown counts waits that are not certain, by the reason. Each wait counts once.
type Unknown struct {
	Records  int // a ring had no room for records
	Blind    int // a CPU had no ring, because it came online, went offline or the machine was suspended; or recording was paused
	NoReturn int // the thread left a CPU again, although there is no record of its return
	Threads  int // more than maxThreads waited
}

// All returns the number of these waits.
func (u *Unknown) All() int { return u.Records + u.Blind + u.NoReturn + u.Threads }

// in returns the count of waits that overlap a blind interval.
func (u *Unknown) in(blind perfring.Interval) *int {
	if blind.Lost {
		return &u.Records
	}
	return &u.Blind
}

// newWaits returns waits of no thread yet. It counts in a message what it leaves out. lastSwitch says that a thread which ends
// has a last switch after its TypeExit.
func newWaits(threshold time.Duration, lastSwitch bool, ends endCode, counts *Message) *waits {
	w := &waits{
		threshold: threshold.Nanoseconds(), ends: ends, counts: counts,
		leaving: make(map[uint32]*perfring.Record), open: make(map[uint32]wait),
	}
	if lastSwitch {
		w.exiting = make(map[uint32]uint32)
	}
	return w
}

// note applies a record. If the record ends a wait that is long enough, it returns the wait. Call it for each record of a
// batch, in order.
func (w *waits) note(r *perfring.Record) (ended wait, ok bool) {
	w.decide(r.TID, r.Time)
	switch r.Type {
	case perfring.TypeSample:
		out, _ := w.leavingOn(r.CPU)
		*out = *r
	case perfring.TypeSwitch:
		out, follows := w.leavingOn(r.CPU)
		if r.Switch == perfring.SwitchIn {
			ended, ok = w.end(r)
		} else {
			w.begin(r, out, follows)
		}
		*out = perfring.Record{}
	case perfring.TypeFork: // the thread that had this number does not return
		delete(w.open, r.TID)
	case perfring.TypeExit:
		if w.exiting != nil {
			w.exiting[r.CPU] = r.TID
		}
	default:
	}
	return ended, ok
}

// leavingOn returns the sample that the next switch of a CPU belongs to, an empty one if there is none. It reports false for the
// first record of the CPU.
func (w *waits) leavingOn(cpu uint32) (out *perfring.Record, follows bool) {
	if out, follows = w.leaving[cpu]; !follows {
		out = new(perfring.Record)
		w.leaving[cpu] = out
	}
	return out, follows
}

// begin begins the wait of a thread that leaves a CPU, by its switch and the sample before that. follows is false if
// the switch is the first record of its CPU: recording began between the two or, as a blind interval then says, the sample was lost.
//
// If a thread that was about to end has left before, its number has another thread by now, which was running: one that has called
// execve, and got the number of its process's first thread. If another has left before, the record of its return is missing;
// confirm counts that wait, unless it overlaps a blind interval.
func (w *waits) begin(r, out *perfring.Record, follows bool) {
	exiting := w.exiting[r.CPU] == r.TID
	delete(w.exiting, r.CPU)
	if !hasNumber(r.TID) {
		return // the idle task, or the last switch of a thread
	}
	if before, again := w.open[r.TID]; again && !w.mayEnd(&before) {
		w.done = append(w.done, interval{sample: sample{at: r.Time}, from: before.from, noReturn: true})
	}
	delete(w.open, r.TID)
	unknown := &w.counts.Unknown
	switch {
	case !follows: // the wait began before recording, and is not counted
	case out.TID != r.TID:
		unknown.Records++
	case w.ends.isLast(out.Stack): // it does not return
	case r.Time < w.since.To:
		*unknown.in(w.since)++
	case len(w.open) >= maxThreads:
		unknown.Threads++
	case len(out.Stack) == 0 && !out.Guest:
		w.counts.NoStack++
	default:
		w.open[r.TID] = wait{
			stack: addressesOf(out), cgroup: out.InCgroup, pid: r.PID, tid: r.TID, cpu: r.CPU,
			preempted: r.Switch == perfring.SwitchRunnable, exiting: exiting, from: r.Time, reported: r.Time,
		}
	}
}

// mayEnd reports whether a thread that waits may have lost its number before it returns. The kernel also records the end of a
// thread that goes on after execve (see waiting.isOutdated), but that one is not in the code in which threads end, if it is known.
func (w *waits) mayEnd(t *wait) bool { return t.exiting && (!w.ends.isKnown() || w.ends.isOn(t.stack)) }

// end ends the wait of a thread that runs again. If its beginning is not known, there is none.
func (w *waits) end(r *perfring.Record) (ended wait, ok bool) {
	ended, ok = w.open[r.TID]
	delete(w.open, r.TID)
	if ended.exiting {
		w.exiting[r.CPU] = r.TID
	}
	if ok && ended.reported == ended.from && !w.isLong(ended.from, r.Time) {
		w.counts.Short++
		return wait{}, false
	}
	return ended, ok
}

// isLong reports whether a wait that lasts from one time to another reaches the threshold.
func (w *waits) isLong(from, to int64) bool { return to > from && to-from >= w.threshold }

// forget drops the waits that overlap blind intervals. Such an interval can end later than the records that are known by
// then: waits that begin in it are dropped later.
func (w *waits) forget(blind []perfring.Interval) {
	for _, b := range blind {
		if b.To > w.since.To {
			w.since = b
		}
		known := len(w.open) + len(w.done)
		if w.blocked.from < b.To {
			known += len(w.blocked.waits)
			clear(w.blocked.waits)
		}
		for tid, t := range w.open {
			if t.from < b.To {
				delete(w.open, tid)
			}
		}
		w.done = slices.DeleteFunc(w.done, func(i interval) bool { return i.from < b.To && b.From <= i.sample.at })
		*w.counts.Unknown.in(b) += known - len(w.open) - len(w.done)
	}
}

// confirm passes on, or counts, the waits that ended before the CPUs were last checked, sorted by their ends, and removes them.
func (w *waits) confirm(looked int64, pass func(*sample)) {
	n := slices.IndexFunc(w.done, func(i interval) bool { return i.sample.at >= looked })
	if n < 0 {
		n = len(w.done)
	}
	for i := range w.done[:n] {
		if w.done[i].noReturn {
			w.counts.Unknown.NoReturn++
		} else {
			pass(&w.done[i].sample)
		}
	}
	w.done = slices.Delete(w.done, 0, n) // and keeps the memory for more
}

// split returns the parts up to a time of the waits that are not confirmed yet, if they had reached the threshold by then.
// None of them ended before that time. The rest of each remains to be confirmed.
//
//	interval   ──────────────────looked────────────certain
//	wait                ├──────────┼────────┤
//	                       part       rest
func (w *waits) split(at int64) (parts []sample) {
	for n := range w.done {
		i := &w.done[n]
		if rest := i.sample.at - at; rest < i.sample.waited && w.isLong(i.from, at) {
			part := i.sample
			part.at, part.waited = at, part.waited-rest
			parts = append(parts, part)
			i.sample.waited = rest
		}
	}
	w.done = slices.DeleteFunc(w.done, func(i interval) bool { return !i.noReturn && i.sample.waited == 0 })
	return parts
}

// report returns the open waits that have reached the threshold at a time and go on, sorted by thread id. They count as reported
// up to that time. Waits that are over are dropped. lifeOf returns the state of the thread that has a number now.
func (w *waits) report(at int64, lifeOf func(tid uint32) procfs.Life) (parts []wait) {
	for tid, t := range w.open {
		if t.reported >= at || !w.isLong(t.from, at) {
			continue
		}
		switch goesOn, over := w.look(&t, lifeOf); {
		case over:
			delete(w.open, tid)
		case goesOn:
			parts = append(parts, t)
			t.reported = at
			w.open[tid] = t
		}
	}
	slices.SortFunc(parts, func(a, b wait) int { return int(a.tid) - int(b.tid) })
	return parts
}

// look finds out whether an open wait goes on, or is over although no record has ended it. If neither is certain, the wait stays
// open, and is reported when it ends.
//
// A thread that ends wakes its parent, which can wait for it at once. From then on, its records have no number. The number is
// free or, if the thread was the first of its process and another one has called execve, that one's:
//
//	do_exit   ├────────────┬───────────────┬───────────────┤ do_task_dead
//	records             TypeExit           │            its last switch
//	number    its own                      │ its own, or not any more
//	                               wakes its parent
//
// If the code is known in which threads end, it is on the stack of such a wait, and the last switch is no wait. If it is not
// known, any wait can be the last switch, and after a TypeExit the number can be another thread's.
func (w *waits) look(t *wait, lifeOf func(tid uint32) procfs.Life) (goesOn, over bool) {
	ends := w.ends.isOn(t.stack)
	if w.exiting == nil || !ends && (w.ends.isKnown() || t.reported > t.from) {
		return true, false
	}
	switch life := lifeOf(t.tid); {
	case life == procfs.Unknown, life == procfs.Ended:
		return false, life == procfs.Ended
	case !t.exiting: // it has not woken its parent
		return true, false
	default: // the other thread does not end; nor does this one yet if it has called execve, which also makes a TypeExit
		return ends && life == procfs.Ending, false
	}
}
