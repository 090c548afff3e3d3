// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// noteWait applies a record to the waits. It looks up the thread's name and container at once, because both can change.
func (s *session) noteWait(r *perfring.Record) {
	if r.Switch == perfring.SwitchBlocked || r.Switch == perfring.SwitchRunnable {
		s.switches++
	}
	if ended, ok := s.waits.note(r); ok && r.Time > ended.reported { // a record can be written after the end of a message
		s.waits.done = append(s.waits.done, interval{s.sampleOf(&ended, r.Time), ended.from})
	}
}

// sampleOf returns the sample of the part of a wait that was not reported yet, up to a time.
func (s *session) sampleOf(t *wait, at int64) sample {
	return sample{
		stack: stackOf(t, s.scheduler), pid: t.pid, tid: t.tid, cpu: t.cpu, name: s.nameOfThread(t.tid, at),
		owner: s.cgroups.owner(t.cgroup, at), at: at, waited: at - t.reported, preempted: t.preempted,
	}
}

// addWaits adds the waits that are certain after a batch.
func (s *session) addWaits(ctx context.Context, b *perfring.Batch) {
	if s.waits == nil {
		return
	}
	s.waits.forget(b.Blind)
	for _, ended := range s.waits.confirmed(b.Looked) {
		s.addWait(ctx, &ended.sample)
	}
}

// addOpenWaits adds the parts of waits up to a time. They go on in the next message.
func (s *session) addOpenWaits(ctx context.Context, at int64) {
	for _, t := range s.waits.report(at, s.lives) {
		part := s.sampleOf(&t, at)
		part.at-- // the end of an interval is not part of it
		s.addWait(ctx, &part)
	}
}

// lives reports whether a thread has not ended.
func (s *session) lives(tid uint32) bool {
	state, _ := procfs.Status(s.sampler.Options.Procfs, strconv.FormatUint(uint64(tid), 10), "State:")
	return len(state) > 0 && state[0] != "Z" && state[0] != "X" // get_task_state in fs/proc/array.c
}

func (s *session) addWait(ctx context.Context, part *sample) {
	if s.keeps(part.pid, part.tid) {
		s.makeRoom(ctx, part.at)
		s.put(part)
	}
}

// countWaits moves the counts of waits to a message.
func (s *session) countWaits(m *Message) {
	if s.waits != nil {
		counts := s.waits.takeCounts()
		m.Short, m.Unknown, m.NoStack = counts.short, counts.lost, counts.noStack
	}
}

// hasTooManySwitches reports whether there were as many switches in this interval as a whole one may have on average.
func (s *session) hasTooManySwitches() bool {
	return s.waits != nil && float64(s.switches) >= float64(s.sampler.Options.MaxSwitches)*s.sampler.Options.Interval.Seconds()
}

// pause ends an interval early and records nothing for a while: as long, on average, as it takes until there may have been
// as many switches as there were. The length of the pause is random: what happens at regular times is then neither always
// in it, nor never. All recorded waits are sent, so a message is complete for the time that it covers.
//
//	switches  ║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║║
//	recorded  ├──────┤          ├──────┤  ├──────┤
//	message   ───────▶          ───────▶  ───────▶
func (s *session) pause(ctx context.Context) error {
	elapsed := s.sampler.Options.Interval - time.Until(s.flush)
	rest := time.Duration(float64(s.switches)/float64(s.sampler.Options.MaxSwitches)*float64(time.Second)) - elapsed
	if err := s.endInterval(ctx); err != nil || rest <= 0 {
		return err
	}
	if err := s.rings.Pause(); err != nil {
		return err
	}
	s.ignored = math.MaxInt64
	err := s.add(ctx, s.rings.Poll()) // what was recorded since the end of the interval: names and cgroups
	s.waits.forgetAll()               // they were reported up to then
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(2 * rest)):
	}
	err = errors.Join(err, s.rings.Resume())
	s.ignored = perfring.Monotonic.Now()
	ended := s.counts.Start
	s.counts.Start = timeOf(s.ignored)
	s.counts.Paused = s.counts.Start.Sub(ended)
	s.beginInterval()
	return err
}

// readScheduler returns the addresses of functions that only wait for others, and are marked with __sched in the kernel's
// source. It returns none if they are not known, or not asked for.
func (s *Sampler) readScheduler() []symtab.Range {
	const section = "__sched_text" // see in_sched_functions in kernel/sched/core.c
	if !s.AtWait {
		return nil
	}
	file, err := os.Open(filepath.Join(s.Options.Procfs, "kallsyms"))
	if err != nil {
		return nil
	}
	defer file.Close()
	found, _ := kallsyms.Extents(file, section) // without them, stacks are longer
	return found[section]
}

// stackOf returns the stack of a wait as a sample has it. All its addresses are return addresses, even the first, which is
// not where an interrupt hit (perf_fetch_caller_regs in include/linux/perf_event.h). Consumers look up the first address as
// it is (see contract 2.3), so it becomes one within the call.
func stackOf(t *wait, scheduler []symtab.Range) []uint64 {
	stack := slices.Clone(withoutScheduler(t.stack, scheduler))
	stack[0]--
	return stack
}

// withoutScheduler returns a stack from the first function on that is none of some functions, or all of it if there is no
// other.
func withoutScheduler(stack []uint64, functions []symtab.Range) []uint64 {
	for i, addr := range stack {
		if !slices.ContainsFunc(functions, func(r symtab.Range) bool { return r.Contains(addr - 1) }) {
			return stack[i:]
		}
	}
	return stack
}
