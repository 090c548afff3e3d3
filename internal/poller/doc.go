// SPDX-License-Identifier: Apache-2.0

// Package poller waits for files and for deadlines without keeping an idle process busy.
//
// A timer of the Go runtime wakes the thread that waits for the network, the runtime's monitor
// and often a third thread that finds nothing to do. A system call that is announced to the
// runtime wakes the monitor. A timer of the kernel, in a file that the runtime watches anyway,
// wakes one thread, which continues with the waiting goroutine. So this package waits with such
// a file. All of its system calls are raw, because none of them blocks.
//
// # How
//
//	epoll of the runtime ─► outer epoll ─┬─► timer: the deadline
//	                                     └─► inner epoll ─► the files
//
// The outer epoll watches the inner one only while [Poller.Wait] waits. At other times, events
// of the files wake nothing. That requires an epoll between them: the kernel notifies watchers
// of a perf event of everything, whatever they asked for (perf_event_wakeup in
// kernel/events/core.c wakes them without a key). An epoll notifies them that it is readable,
// and this wakes only watchers that asked for it (ep_poll_callback in fs/eventpoll.c).
package poller
