// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// schedulerFunctions are the functions by which a thread gives up its CPU (kernel/sched/core.c, kernel/time/sleep_timeout.c,
// before 6.14 timer.c and hrtimer.c). They say nothing of what it waits for. Locks, completions and sleeps, which the kernel
// keeps in the same section, do.
var schedulerFunctions = []string{
	"__schedule", "schedule", "schedule_preempt_disabled", "yield", "io_schedule", "io_schedule_timeout",
	"schedule_timeout", "schedule_timeout_idle", "schedule_timeout_interruptible", "schedule_timeout_killable",
	"schedule_timeout_uninterruptible", "schedule_hrtimeout", "schedule_hrtimeout_range", "schedule_hrtimeout_range_clock",
}

// ErrScheduler says that the stacks of waits begin in the scheduler.
var ErrScheduler = errors.New("the stacks of waits begin with the functions of the scheduler: " +
	"their addresses cannot be read from kallsyms")

// IsScheduler reports whether a function, by the kernel's name, is one by which a thread gives up its CPU. It can be a part of
// one that the compiler split off, such as __schedule.constprop.0.
func IsScheduler(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	return slices.Contains(schedulerFunctions, name)
}

// readScheduler finds the addresses of these functions. Its errors wrap ErrScheduler.
func readScheduler(o *Options) (all []symtab.Range, _ error) {
	found, err := o.extents(schedulerFunctions...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScheduler, err)
	}
	for _, ranges := range found {
		all = append(all, ranges...)
	}
	if len(found["schedule"]) == 0 {
		return nil, fmt.Errorf("%w: it lacks schedule", ErrScheduler)
	}
	return all, nil
}

// lastFunction is the one by which a thread that ends gives up its CPU for the last time (kernel/sched/core.c, since Linux 4.9). It
// does not return, and nothing preempts it. Its caller is in another file, and compilers that optimize across files do not
// inline a function that does not return where the code would grow.
const lastFunction = "do_task_dead"

// endFunction is the function in which a thread ends (kernel/exit.c). It calls lastFunction, and does not return either. It is
// never inlined, because functions of other files call it.
const endFunction = "do_exit"

// endCode is the code in which threads end. It is empty if not all of it is known.
type endCode struct {
	last []symtab.Range // lastFunction
	all  []symtab.Range // endFunction
}

func (c *endCode) isKnown() bool { return len(c.all) > 0 }

// isOn reports whether a stack, all return addresses, is that of a thread that ends.
func (c *endCode) isOn(stack []uint64) bool { return isOnStack(c.all, stack) }

// isLast reports whether the stack of a thread that leaves a CPU, all return addresses, is that of a thread which has ended.
func (c *endCode) isLast(stack []uint64) bool {
	const within = 3 // lastFunction calls __schedule, which may call prepare_task_switch, and that perf_event_task_sched_out
	innermost := stack[:min(len(stack), within)]
	return slices.ContainsFunc(c.last, func(code symtab.Range) bool {
		return slices.ContainsFunc(innermost, func(addr uint64) bool { return code.Contains(addr - 1) })
	})
}

// withoutScheduler returns a stack, leaf first, from the first address on that is not in the scheduler, or all of it if there
// is none. All addresses are return addresses.
func withoutScheduler(stack []uint64, scheduler []symtab.Range) []uint64 {
	for i, addr := range stack {
		if !slices.ContainsFunc(scheduler, func(r symtab.Range) bool { return r.Contains(addr - 1) }) {
			return stack[i:]
		}
	}
	return stack
}
