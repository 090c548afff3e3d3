// SPDX-License-Identifier: Apache-2.0

// Package poller waits for files and for deadlines without keeping an idle process busy.
//
// A timer of the Go runtime wakes the thread that waits for the network, the runtime's
// monitor and often a third thread that finds nothing to do; a system call that the
// runtime is told of wakes the monitor. A timer of the kernel, in a file that the runtime
// watches anyway, wakes one thread, which goes on with the goroutine that waits. So this
// package waits with such a file, and all of its system calls are raw: none of them blocks.
//
// # How
//
//	epoll of the runtime ─► outer epoll ─┬─► timer: the deadline
//	                                     └─► inner epoll ─► the files
//
// The outer epoll watches the inner one only while [Poller.Wait] waits. What happens to
// the files at other times wakes nobody. That takes an epoll between them: the kernel tells
// those who watch a perf event of everything, whatever they asked for (perf_event_wakeup in
// kernel/events/core.c wakes them without a key), but an epoll says that it is readable, and
// is heard only where that is asked for (ep_poll_callback in fs/eventpoll.c).
package poller
