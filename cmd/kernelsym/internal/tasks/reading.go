// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Reading holds threads, by their ids, as /proc shows them at about one time.
type Reading map[uint32]Thread

// A Thread is a thread in a Reading.
type Thread struct {
	PID   uint32
	State byte // as in /proc/PID/stat

	started uint64   // in clock ticks since the boot; another thread with the same id started at another time
	sched   [3]int64 // the time that it ran, the time that it could run but had no CPU, and the number of times that it got one
}

// Waits reports whether the thread is off the CPU and cannot go on.
func (t Thread) Waits() bool { return strings.IndexByte(WaitStates, t.State) >= 0 }

// WaitStates are the states of threads that are off the CPU and cannot go on (get_task_state in fs/proc/array.c): they wait and
// cannot be interrupted, wait and can be interrupted, are idle threads of the kernel, were stopped by a signal, or by a debugger.
const WaitStates = "DSITt"

// Read returns the selected threads, or nil if there are more than a number. Without schedstat, which needs CONFIG_SCHED_INFO,
// threads have no delays.
func (s *Selection) Read(procfs string, most int) Reading {
	all := make(Reading)
	for dir := range s.directories(procfs) {
		stat, ok := readStat(dir)
		if !ok {
			continue // it has ended
		}
		if len(all) == most {
			return nil
		}
		pid := number(filepath.Base(filepath.Dir(filepath.Dir(dir))))
		all[number(filepath.Base(dir))] = Thread{PID: pid, State: stat.state, started: stat.started, sched: readSchedstat(dir)}
	}
	return all
}

// Delays are the times for which tasks could run but had no CPU, by their ids. What is not certain is left out.
type Delays struct {
	Threads, Processes map[uint32]time.Duration
}

// DelaysSince returns the delays since an earlier reading. A thread has one if it is in both readings, and a process if all its
// threads have one: none began or ended in between. A delay is counted when it ends, so it may have begun before.
//
// With execve, a thread ends all others of its process, and gets the id and the start time of its first thread (de_thread in
// fs/exec.c). Then the first thread has no delay if the earlier reading has another thread of its process. If it does not,
// nothing in /proc says that the first thread was replaced, unless a number in schedstat became smaller; and the record of its
// exit may come later than this reading.
func (r Reading) DelaysSince(before Reading) Delays {
	d := Delays{Threads: make(map[uint32]time.Duration), Processes: make(map[uint32]time.Duration)}
	same, other := make(map[uint32]int), make(map[uint32]int) // numbers of threads by process
	for tid, old := range before {
		if now := r[tid]; now.continues(old) {
			same[old.PID]++
			d.Threads[tid] = time.Duration(now.sched[delayed] - old.sched[delayed])
		} else {
			other[old.PID]++
		}
	}
	for tid, now := range r {
		if !now.continues(before[tid]) {
			other[now.PID]++
		}
	}
	for pid := range same {
		if same[pid] == 1 && other[pid] > 0 {
			delete(d.Threads, pid)
		}
	}
	for tid, delay := range d.Threads {
		if pid := r[tid].PID; other[pid] == 0 {
			d.Processes[pid] += delay
		}
	}
	return d
}

// continues reports whether a thread is the one that another reading has, and both have a delay.
func (t Thread) continues(old Thread) bool {
	if t.started != old.started || t.PID != old.PID {
		return false
	}
	for i := range t.sched {
		if t.sched[i] < old.sched[i] {
			return false
		}
	}
	return old.sched != [3]int64{} // the kernel does not count, or it never ran
}

// delayed is the index of the delay in the file schedstat (Documentation/scheduler/sched-stats.rst).
const delayed = 1

// readSchedstat returns the numbers in a thread's file schedstat, all 0 if there is none.
func readSchedstat(dir string) (n [3]int64) {
	text, _ := os.ReadFile(filepath.Join(dir, "schedstat"))
	fields := strings.Fields(string(text))
	if len(fields) != len(n) {
		return n
	}
	for i, f := range fields {
		var err error
		if n[i], err = strconv.ParseInt(f, 10, 64); err != nil {
			return [3]int64{}
		}
	}
	return n
}

// stat holds fields of a task's file stat.
type stat struct {
	state   byte
	exits   bool   // it is ending
	started uint64 // in clock ticks since the boot
	cpu     uint32 // where it runs, or ran last
}

// readStat reports false if the task has ended.
func readStat(dir string) (s stat, ok bool) {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return stat{}, false
	}
	return parseStat(text)
}

// parseStat parses a file stat (do_task_stat in fs/proc/array.c).
func parseStat(text []byte) (s stat, ok bool) {
	const state, flags, started, cpu = 0, 6, 19, 36 // of the fields after the name, which can itself contain ") "
	const exiting = 1 << 2                          // PF_EXITING of include/linux/sched.h; the same since Linux 2.6
	name := bytes.LastIndexByte(text, ')')          // its end
	fields := strings.Fields(string(text[name+1:]))
	if name < 0 || len(fields) <= cpu {
		return stat{}, false
	}
	var err error
	s.state, s.exits, s.cpu = fields[state][0], number(fields[flags])&exiting != 0, number(fields[cpu])
	s.started, err = strconv.ParseUint(fields[started], 10, 64)
	return s, err == nil
}
