// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// threads holds the names of threads. They come from records of the kernel and, for threads
// that were named before recording began, from /proc.
type threads struct {
	procfs string
	names  map[uint32]string // by thread id; empty if the name cannot be found
	exited []uint32
	coming map[uint32]int // by thread id: the number of naming records not noted yet
	since  int64          // the time since which no record was lost
}

// maxThreads bounds the number of names, in case records of exits are lost. It is the number of
// threads that Linux allows by default on a large machine.
const maxThreads = 1 << 16

func newThreads(procfs string) *threads {
	return &threads{procfs: procfs, names: make(map[uint32]string), coming: make(map[uint32]int)}
}

// hasNumber reports whether a number identifies a process or thread. 0 stands for the idle task
// of each CPU and for all tasks of PID namespaces that are not visible here.
func hasNumber(id uint32) bool { return id != 0 && id != perfring.NoTask }

// begin prepares for the records of a batch. After a loss, threads may have new names.
func (t *threads) begin(b *perfring.Batch) {
	if b.Lost > 0 || len(b.Blind) > 0 {
		clear(t.names)
	}
	for _, blind := range b.Blind {
		t.since = max(t.since, blind.To)
	}
	clear(t.coming)
	for i := range b.Records {
		if r := &b.Records[i]; isNaming(r) {
			t.coming[r.TID]++
		}
	}
}

// isNaming reports whether a record announces a new name, or a new thread with that number.
func isNaming(r *perfring.Record) bool {
	return r.Type == perfring.TypeComm || r.Type == perfring.TypeFork
}

// note applies a record about a thread. It must be called for each such record of a batch, in
// order.
func (t *threads) note(r *perfring.Record) {
	if isNaming(r) {
		t.coming[r.TID]--
	}
	if !hasNumber(r.TID) || isNaming(r) && r.Time < t.since {
		return
	}
	switch r.Type {
	case perfring.TypeComm:
		t.set(r.TID, r.Comm)
	case perfring.TypeFork:
		if name, ok := t.names[r.Parent]; ok {
			t.set(r.TID, name)
		} else {
			delete(t.names, r.TID) // the id can be reused
		}
	case perfring.TypeExit:
		t.exited = append(t.exited, r.TID) // it still runs for a moment
	}
}

// set stores a thread's name as valid UTF-8. A name can hold any bytes, and the kernel may cut
// a long one in the middle of a character. Receivers refuse messages with strings that are not
// UTF-8.
func (t *threads) set(tid uint32, name string) {
	if len(t.names) >= maxThreads {
		clear(t.names)
	}
	t.names[tid] = strings.ToValidUTF8(name, "\uFFFD")
}

// name returns the name that a thread had at a time, or an empty string if it cannot be found.
// /proc has only the current name, so it is not read if a later record has a different one.
func (t *threads) name(tid uint32, at int64) string {
	if at < t.since {
		return ""
	}
	if _, ok := t.names[tid]; !ok && hasNumber(tid) && t.coming[tid] <= 0 {
		t.set(tid, t.read(tid))
	}
	return t.names[tid]
}

func (t *threads) read(tid uint32) string {
	comm, err := os.ReadFile(filepath.Join(t.procfs, strconv.FormatUint(uint64(tid), 10), "comm"))
	if err != nil {
		return "" // it has exited
	}
	return string(bytes.TrimSuffix(comm, []byte("\n")))
}

// forgetExited drops the names of threads that have exited.
func (t *threads) forgetExited() {
	for _, tid := range t.exited {
		delete(t.names, tid)
	}
	t.exited = t.exited[:0]
}
