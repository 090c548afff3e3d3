// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// tasksOf returns the function that lists the threads which an event is opened for; nil for all threads.
func tasksOf(event Event) func() ([]Task, error) {
	switches, _ := event.(Switches)
	return switches.Tasks
}

// withoutRecords returns the attributes of an event that has the ring of others, and no records of its own.
func withoutRecords(attr unix.PerfEventAttr) unix.PerfEventAttr {
	attr.Config, attr.Sample = unix.PERF_COUNT_SW_DUMMY, 0
	attr.Bits &^= unix.PerfBitContextSwitch | unix.PerfBitTask
	return attr
}

// whileMade is far longer than it takes from when a thread inherits to when it can be listed.
const whileMade = 2 * time.Millisecond

// maxOpens is how often openTasks tries to open the events of threads that make new ones.
const maxOpens = 20

// openTasks opens the event of each thread on a CPU. They write to the ring of another event on that CPU.
//
// The events of a thread are inherited by the threads that it makes afterwards. A thread that is made before is either listed,
// or is made between the list and the opening of its maker's event. In that case it is in the second list:
//
//	first list     A
//	events           open(A) ─────────────────▶ A's new threads inherit
//	threads        A───┬─────┬────▶
//	                   B     └C inherits
//	second list               A B C
//
// Nothing tells B and C apart. If there are new threads, all events are closed, also those that were inherited, and opened for
// the threads of the second list. A thread that is being made inherits before it can be listed (copy_process in kernel/fork.c),
// so the second list comes after a pause.
func openTasks(list func() ([]Task, error), attr *unix.PerfEventAttr, cpu, ring int) (fds []int, err error) {
	threads, err := list()
	for range maxOpens {
		if err != nil {
			return nil, err
		}
		if fds, err = openEach(threads, attr, cpu, ring); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(threads, func(t Task) bool { return t.New }) {
			time.Sleep(whileMade)
		}
		opened := threads
		threads, err = list()
		if err == nil && !slices.ContainsFunc(threads, func(t Task) bool { return !slices.Contains(opened, t) }) {
			return fds, nil
		}
		err = errors.Join(err, closeAll(fds))
	}
	return nil, fmt.Errorf("%w: they begin and end all the time", ErrTasks)
}

// openEach opens the event of each thread that has not ended.
func openEach(threads []Task, attr *unix.PerfEventAttr, cpu, ring int) (fds []int, err error) {
	for _, t := range threads {
		fd, err := openTask(t, *attr, cpu, ring)
		if errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			err = fmt.Errorf("%w: opening a perf event on thread %d: %w", ErrTasks, t.TID, err)
			return nil, errors.Join(err, closeAll(fds))
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func openTask(t Task, attr unix.PerfEventAttr, cpu, ring int) (fd int, err error) {
	if t.New {
		attr.Bits |= unix.PerfBitInherit | bitInheritThread
	}
	fd, err = unix.PerfEventOpen(&attr, int(t.TID), cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if t.New && errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("new threads of a process can be recorded since Linux 5.13: %w", err)
	}
	if err != nil {
		return -1, err
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, ring); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func closeAll(fds []int) (err error) {
	for _, fd := range fds {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}
