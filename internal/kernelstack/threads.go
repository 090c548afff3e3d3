// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/time/rate"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// threads holds the names of threads. They come from records of the kernel and, for threads that were named before
// recording began, from /proc. What /proc says is true from the moment when it was read until a later record. Before that
// moment, a thread may have had another name, whose record is yet to come. The workqueue that /proc adds to the name of a
// worker is left out.
//
//	records  ───"bash"───────"sh"───────"ls"──────────▶
//	/proc                            "sh"
//	name     ?  │ bash       │ sh       │ ls
//
// If records are lost, any thread may have another name. Those that were recorded, or whose reading began, before the loss
// was over are not certain any more.
type threads struct {
	procfs string                // of this PID namespace; empty if there is none, and only records have names
	now    func() int64          // the clock of the records
	names  map[uint32]threadName // by thread id
	exited []uint32
	since  int64         // the time since which no record was lost
	reads  *rate.Limiter // of /proc, for threads without a name
}

// Reading a name takes some 10 µs. After a loss, no thread has one, so reading is limited: to about a hundredth of a CPU.
const (
	maxReads   = 1000 // a second
	burstReads = 4096
)

// threadName holds the names of a thread, by their sources.
type threadName struct {
	recorded, read since
	before         int64 // when reading began: earlier records are older than the name read
}

// since is a name from a time on.
type since struct {
	name string // empty if it is not known
	time int64
}

// unknown is a name that was not recorded, or not read.
var unknown = since{time: math.MaxInt64}

// at returns the name at a time, up to which all records were applied.
func (n *threadName) at(time int64) string {
	if time >= n.read.time {
		return n.read.name
	}
	if time >= n.recorded.time {
		return n.recorded.name
	}
	return ""
}

func (n *threadName) isUnknown() bool { return n.recorded == unknown && n.read == unknown }

// maxThreads bounds the number of names, in case records of exits are lost. It is the number of
// threads that Linux allows by default on a large machine.
const maxThreads = 1 << 16

func newThreads(procfs string) *threads {
	return &threads{
		procfs: procfs, now: perfring.Monotonic.Now, names: make(map[uint32]threadName),
		since: math.MinInt64, reads: rate.NewLimiter(maxReads, burstReads),
	}
}

// hasNumber reports whether a number identifies a process or thread. 0 stands for the idle task
// of each CPU and for all tasks of PID namespaces that are not visible here.
func hasNumber(id uint32) bool { return id != 0 && id != perfring.NoTask }

// readAll reads the names of all threads. Records must have begun.
func (t *threads) readAll() {
	if t.procfs == "" {
		return
	}
	tasks, _ := filepath.Glob(filepath.Join(t.procfs, "[0-9]*", "task", "[0-9]*")) // the pattern is well-formed
	for _, task := range tasks {
		if tid, err := strconv.ParseUint(filepath.Base(task), 10, 32); err == nil {
			t.read(uint32(tid))
		}
	}
}

// lose notes that records may be missing in an interval. It must be called in the order of time, together with note.
func (t *threads) lose(blind perfring.Interval) { t.since = max(t.since, blind.To) }

// note applies a record about a thread. It must be called for each such record, in order.
func (t *threads) note(r *perfring.Record) {
	if !hasNumber(r.TID) {
		return
	}
	if r.Type == perfring.TypeExit {
		t.exited = append(t.exited, r.TID) // it still runs for a moment
		return
	}
	if r.Time < t.since {
		return
	}
	switch parent := t.find(r.Parent); {
	case r.Type == perfring.TypeComm:
		t.record(r, since{r.Comm, r.Time})
	case r.Type == perfring.TypeFork && inheritsName(r) && parent.at(r.Time) != "":
		t.record(r, since{parent.at(r.Time), r.Time})
	case r.Type == perfring.TypeFork:
		t.record(r, unknown) // the id can be reused
	}
}

// find returns the names of a thread that are certain.
func (t *threads) find(tid uint32) threadName {
	n, ok := t.names[tid]
	if !ok || n.recorded.time < t.since {
		n.recorded = unknown
	}
	if !ok || n.before < t.since {
		n.read = unknown
	}
	return n
}

// record stores the name that a thread has after a record. What was read before the record no longer holds.
func (t *threads) record(r *perfring.Record, name since) {
	n := t.find(r.TID)
	n.recorded = name
	if r.Time >= n.before {
		n.read = unknown
	}
	if n.isUnknown() {
		delete(t.names, r.TID)
		return
	}
	t.set(r.TID, n)
}

// kthreadd is the thread that makes all threads of the kernel.
const kthreadd = 2

// inheritsName reports whether a new thread has the name of the thread that made it, until a record says otherwise. The
// kernel names its own threads, and threads that it adds to a process (vhost workers, for example), without a record
// (copy_process in kernel/fork.c, since Linux 6.4).
func inheritsName(r *perfring.Record) bool { return r.TID == r.PID && r.Parent != kthreadd }

// set stores a thread's name as valid UTF-8. A name can hold any bytes, and the kernel may cut
// a long one in the middle of a character. Receivers refuse messages with strings that are not
// UTF-8.
func (t *threads) set(tid uint32, n threadName) threadName {
	if len(t.names) >= maxThreads {
		clear(t.names)
	}
	for _, name := range []*string{&n.recorded.name, &n.read.name} {
		*name = strings.ToValidUTF8(*name, "\uFFFD")
	}
	t.names[tid] = n
	return n
}

// name returns the name that a thread had at a time, or an empty string if it is not known.
func (t *threads) name(tid uint32, at int64) string {
	n := t.find(tid)
	if n.isUnknown() && hasNumber(tid) && t.reads.Allow() {
		n = t.read(tid)
	}
	if at < t.since {
		return ""
	}
	return n.at(at)
}

// read reads the name that a thread has now.
func (t *threads) read(tid uint32) threadName {
	if t.procfs == "" {
		return threadName{recorded: unknown, read: unknown}
	}
	// A thread has a directory like that of a process, although only processes are listed.
	id := strconv.FormatUint(uint64(tid), 10)
	before := t.now() // it may be renamed while it is read, which only a record then says
	comm, err := os.ReadFile(filepath.Join(t.procfs, id, "comm"))
	if err != nil {
		comm = nil // it has exited
	}
	name := t.withoutWorkqueue(id, string(bytes.TrimSuffix(comm, []byte("\n"))))
	return t.set(tid, threadName{recorded: unknown, read: since{name, t.now()}, before: before})
}

// withoutWorkqueue returns the name of a thread from its name in /proc. For a worker of the kernel, the kernel adds the
// workqueue that the worker works for ("+") or worked for last ("-"), as in kworker/u8:1-events_unbound, and no record
// follows when that changes (wq_worker_comm in kernel/workqueue.c, since Linux 4.18). A rescuer, such as
// kworker/R-writeback, works for one workqueue, whose name is part of its own.
func (t *threads) withoutWorkqueue(id, name string) string {
	const workers, rescuers = "kworker/", "kworker/R-"
	end := strings.IndexAny(name, "+-")
	if end < 0 || !strings.HasPrefix(name, workers) || strings.HasPrefix(name, rescuers) || !procfs.IsKernelThread(t.procfs, id) {
		return name
	}
	return name[:end]
}

// forgetExited drops the names of threads that have exited.
func (t *threads) forgetExited() {
	for _, tid := range t.exited {
		delete(t.names, tid)
	}
	t.exited = t.exited[:0]
}
