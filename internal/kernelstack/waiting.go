// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// Waiting samples what threads wait for, on all CPUs: each time that a thread is off the CPU is a sample. It needs the
// initial PID namespace, as other namespaces do not show the numbers of all threads.
type Waiting struct {
	Threshold   time.Duration // shorter waits are counted only
	MaxSwitches int           // per second, on all CPUs, on average

	// Scheduler keeps the functions of the scheduler in the stacks. Without it, the first function is the one that waits; see
	// IsScheduler.
	Scheduler bool

	// Before reads threads that are blocked. It is called when recording has begun, and again after each pause. Their waits count
	// from then on, and their samples have the attribute KeyBefore. Nil leaves these waits out.
	Before func() []Blocked

	// Tasks lists the threads to record, as in [perfring.Switches]. If their events cannot be opened, or would be too many, all
	// threads are recorded; the function Sampler.Keep must leave out the others in any case. Nil records all threads.
	Tasks func() ([]perfring.Task, error)

	// Sum makes one sample of the waits of a message that differ in their lengths and times only, if their stack lies in the
	// text of the core kernel: see contract 5.3.
	Sum bool
}

// maxEvents bounds the number of events of single threads: one on each CPU for each thread.
const maxEvents = 4096

// methods returns a method that records all threads, and before it one that records those of Tasks. Its error says that waits
// cannot be sampled.
func (w Waiting) methods(o *Options, cgroups bool) ([]method, error) {
	if err := procfs.CheckInitialPIDNamespace(o.Procfs); err != nil {
		return nil, fmt.Errorf("waits cannot be sampled: %w", err)
	}
	var scheduler []symtab.Range
	var whole error
	if !w.Scheduler {
		scheduler, whole = readScheduler(o)
	}
	ends, core := readCore(o)
	if !w.Sum {
		core = symtab.Range{}
	}
	hidden := !w.Scheduler && len(scheduler) == 0 || !ends.isKnown() || w.Sum && core == (symtab.Range{})
	by := func(event perfring.Switches) method {
		return method{
			name: "wait", event: event, kind: kindOfWaits, missing: Missing{Scheduler: whole}, hidden: hidden,
			sampler: func(out *outbox) threadSampler {
				return &waiting{
					out: out, waits: newWaits(w.Threshold, event.Tasks == nil, ends, &out.counts), scheduler: scheduler, core: core,
					maxSwitches: w.MaxSwitches, procfs: o.Procfs, before: w.Before, canEnd: event.Tasks != nil,
				}
			},
		}
	}
	all := by(perfring.Switches{Cgroups: cgroups})
	if w.Tasks == nil {
		return []method{all}, nil
	}
	return []method{by(perfring.Switches{Cgroups: cgroups, Tasks: func() ([]perfring.Task, error) { return w.fewTasks(o) }}), all}, nil
}

// fewTasks returns the threads to record if their events are not too many: they may take half of the files that this process
// may open.
func (w Waiting) fewTasks(o *Options) ([]perfring.Task, error) {
	threads, err := w.Tasks()
	if err != nil {
		return nil, err
	}
	most, cpus := maxEvents, numCPUs(o.Sysfs)
	if files, err := strconv.Atoi(limit(o.Procfs, "Max open files")); err == nil {
		most = min(most, files/2)
	}
	if len(threads)*cpus > most {
		return nil, fmt.Errorf("%w: there are %d threads and %d CPUs, and at most %d events", perfring.ErrTasks, len(threads), cpus, most)
	}
	return threads, nil
}

// waiting samples threads that wait: each sample is the part of a wait that lies in a message.
type waiting struct {
	out         *outbox
	waits       *waits
	scheduler   []symtab.Range // what is left out of stacks
	core        symtab.Range   // stacks that lie in it are summed
	maxSwitches int            // per second, on average
	switches    int            // times that a thread left a CPU in this interval, idle tasks included
	procfs      string
	before      func() []Blocked // reads threads that are blocked; nil for none
	canEnd      bool             // events are of single threads: the kernel can end them
	silent      []end            // if it can, threads that have no events if they go on, by their last records
}

// end is the last record of a thread.
type end struct {
	tid uint32
	at  int64
}

// record looks up the thread's name and container at once, because both can change.
func (w *waiting) record(_ context.Context, r *perfring.Record, certain bool) {
	if !certain {
		return
	}
	if r.Switch == perfring.SwitchBlocked || r.Switch == perfring.SwitchRunnable {
		w.switches++
	}
	if w.canEnd {
		w.noteEnd(r)
	}
	if ended, ok := w.waits.note(r); ok && r.Time > ended.reported { // a record can be written after the end of a message
		w.waits.done = append(w.waits.done, interval{sample: w.sampleOf(&ended, r.Time), from: ended.from})
	}
}

// sampleOf returns the sample of the part of a wait that was not reported yet, up to a time.
func (w *waiting) sampleOf(t *wait, at int64) sample {
	return sample{
		stack: stackOf(t, w.scheduler), pid: t.pid, tid: t.tid, cpu: t.cpu, name: w.out.names.ofThread(t.tid, at),
		owner: w.out.names.cgroups.owner(t.cgroup, at), at: at, waited: at - t.reported, preempted: t.preempted, before: t.before,
		sums: isWithin(w.core, t.stack),
	}
}

// confirm adds the waits that are certain after a batch.
func (w *waiting) confirm(ctx context.Context, b *perfring.Batch) {
	w.waits.decideAll(b.Certain)
	w.waits.forget(b.Blind)
	w.waits.confirm(b.Looked, func(ended *sample) { w.add(ctx, ended) })
}

// endInterval adds the parts of waits up to the time when the CPUs were checked: of those that go on, and of those that have
// ended since then, which are not confirmed. They continue in the next message.
func (w *waiting) endInterval(ctx context.Context, b *perfring.Batch) (end int64) {
	end = min(b.Certain, b.Looked)
	parts := w.waits.split(end)
	for _, t := range w.waits.report(end, w.lifeOf) {
		parts = append(parts, w.sampleOf(&t, end))
	}
	for _, part := range parts {
		part.at-- // the end of an interval is not part of it
		w.add(ctx, &part)
	}
	w.switches = 0
	return end
}

// spent returns the time in which there may be as many switches as there were in this interval.
func (w *waiting) spent() time.Duration {
	return time.Duration(float64(w.switches) / float64(w.maxSwitches) * float64(time.Second))
}

// noteEnd notes a record that is the last one of a thread which may go on, or is not: the end of a process's first thread, and the
// beginning of a selected thread. A thread that calls execve gets the number of the first thread, which ends before.
func (w *waiting) noteEnd(r *perfring.Record) {
	w.silent = slices.DeleteFunc(w.silent, func(e end) bool { return e.tid == r.TID })
	if isFirst := r.TID == r.PID; r.Type == perfring.TypeExit && isFirst ||
		r.Type == perfring.TypeFork && !isFirst && w.out.keeps(r.PID, r.TID) {
		w.silent = append(w.silent, end{r.TID, r.Time})
	}
}

// isOutdated reports whether a thread goes on without events. The kernel ends the events of a process that runs a program by execve
// that gives it other rights, or that its user may not read (begin_new_exec in fs/exec.c). By then, its only thread has the
// number of the process. A thread has none if it was being made when the events of its maker were opened, for longer than
// perfring waits for it.
func (w *waiting) isOutdated() bool {
	ready := perfring.Monotonic.Now() - time.Second.Nanoseconds() // others may still be about to end
	n := slices.IndexFunc(w.silent, func(e end) bool { return e.at >= ready })
	if n < 0 {
		n = len(w.silent)
	}
	old := w.silent[:n]
	w.silent = w.silent[n:]
	return slices.ContainsFunc(old, func(e end) bool { return w.lifeOf(e.tid) != procfs.Ended })
}

// lifeOf returns the state of the thread that has a number. If no thread has it, the thread has ended, even if /proc hides threads.
func (w *waiting) lifeOf(tid uint32) procfs.Life {
	life, err := procfs.LifeOf(w.procfs, strconv.FormatUint(uint64(tid), 10))
	if err != nil && !perfring.Exists(tid) {
		return procfs.Ended
	}
	return life
}

func (w *waiting) add(ctx context.Context, part *sample) {
	if w.out.keeps(part.pid, part.tid) {
		w.out.makeRoom(ctx, part.at)
		w.out.put(part)
	}
}

// readCore finds the code in which threads end, and the text of the core kernel. They are empty if they are not known.
func readCore(o *Options) (ends endCode, text symtab.Range) {
	found, _ := o.extents(lastFunction, endFunction, kallsyms.CoreText)
	if core := found[kallsyms.CoreText]; len(core) > 0 {
		text = core[0]
	}
	if last, all := found[lastFunction], found[endFunction]; len(last) > 0 && len(all) > 0 {
		ends = endCode{last, all}
	}
	return ends, text
}

// isWithin reports whether all addresses of a stack, which are return addresses, lie in some code. It is false if that is empty.
func isWithin(code symtab.Range, stack []uint64) bool {
	outside := func(addr uint64) bool { return addr != guest && !code.Contains(addr-1) }
	return code != (symtab.Range{}) && !slices.ContainsFunc(stack, outside)
}

// stackOf returns the stack of a wait as a sample has it. All its addresses are return addresses, even the first, which is
// not where an interrupt hit (perf_fetch_caller_regs in include/linux/perf_event.h). Consumers look up the first address as
// it is (see contract 2.3), so it becomes one within the call.
func stackOf(t *wait, scheduler []symtab.Range) []uint64 {
	if t.before || t.stack[0] == guest { // it has no addresses
		return t.stack
	}
	stack := slices.Clone(withoutScheduler(t.stack, scheduler))
	stack[0]--
	return stack
}
