// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// idleLoop lists functions: every stack of an idle task has one of them (kernel/sched/idle.c). The idle task cannot be
// recognized by its thread id: in a PID namespace of its own, a process sees the id 0 for all other tasks.
var idleLoop = []string{"do_idle", "cpu_startup_entry"}

// idleWork lists functions and a section. If an idle task does more than wait, its stack has one of them: the code by which
// an interrupt enters the kernel, and the functions that run without an interrupt where idle CPUs poll, or on the way out of
// one. flush_smp_call_function_from_idle is the name of flush_smp_call_function_queue up to Linux 5.18.
var idleWork = []string{
	"__entry_text", "asm_fred_entrypoint_kernel", "handle_softirqs", "__do_softirq",
	"flush_smp_call_function_queue", "flush_smp_call_function_from_idle",
}

// ErrIdleWork says that interrupts and softirqs on idle CPUs are not sampled, because they cannot be distinguished
// from the idle loop.
var ErrIdleWork = errors.New("interrupts and softirqs on idle CPUs are not sampled: " +
	"the addresses of the idle loop cannot be read from kallsyms")

// idle distinguishes the idle loop from other work of an idle CPU, by the stack. The zero value recognizes no loop.
type idle struct{ loop, work []symtab.Range }

// readIdle finds the addresses of the idle loop and of work. Its errors wrap ErrIdleWork.
func readIdle(o *Options) (i idle, err error) {
	found, err := o.extents(slices.Concat(idleLoop, idleWork)...)
	if err != nil {
		return idle{}, fmt.Errorf("%w: %w", ErrIdleWork, err)
	}
	for _, name := range idleLoop {
		i.loop = append(i.loop, found[name]...)
	}
	for _, name := range idleWork {
		i.work = append(i.work, found[name]...)
	}
	if len(i.loop) == 0 || len(found["__entry_text"]) == 0 {
		return idle{}, fmt.Errorf("%w: it lacks do_idle or __entry_text_start", ErrIdleWork)
	}
	return i, nil
}

// extents finds the addresses of functions in kallsyms or, if they are hidden there, in the core kernel as it was located.
func (o *Options) extents(names ...string) (found map[string][]symtab.Range, err error) {
	file, err := os.Open(filepath.Join(o.Procfs, "kallsyms"))
	if err == nil {
		defer file.Close()
		found, err = kallsyms.Extents(file, names...)
	}
	if err != nil {
		if core := o.core(); core != nil {
			return kallsyms.ExtentsOf(core, names...), nil
		}
	}
	return found, err
}

// core returns the core kernel as it was located, nil if it was not.
func (o *Options) core() *timeline.Image {
	if o.Located == nil {
		return nil
	}
	return o.Located()
}

// isLoop reports whether a stack, leaf first, belongs to an idle task that only waits for work.
func (i *idle) isLoop(stack []uint64) bool {
	return isOnStack(i.loop, stack) && !isOnStack(i.work, stack)
}

// isOnStack reports whether a frame of a stack lies in one of some ranges. Its frames are return addresses, but for the
// leaf.
func isOnStack(ranges []symtab.Range, stack []uint64) bool {
	for n := len(stack) - 1; n >= 0; n-- { // the idle loop is at the root
		addr := stack[n]
		if n > 0 {
			addr--
		}
		if slices.ContainsFunc(ranges, func(r symtab.Range) bool { return r.Contains(addr) }) {
			return true
		}
	}
	return false
}
