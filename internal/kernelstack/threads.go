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

// threads knows the names of threads: from records of the kernel, and from /proc
// for those that have had their name since before.
type threads struct {
	procfs string
	names  map[uint32]string // by thread id; empty if it cannot be found out
	exited []uint32
	coming map[uint32]int // by thread id: the records of a new name that are not noted yet
	since  int64          // when no record was lost any more
}

// maxThreads bounds the names that are kept, should records of exits be lost. It
// is the number of threads that Linux allows by default on a large machine.
const maxThreads = 1 << 16

func newThreads(procfs string) *threads {
	return &threads{procfs: procfs, names: make(map[uint32]string), coming: make(map[uint32]int)}
}

// hasNumber reports whether a number tells a process or thread from others. 0 stands for the
// idle task of each CPU and for all tasks of PID namespaces that are not visible here.
func hasNumber(id uint32) bool { return id != 0 && id != perfring.NoTask }

// begin prepares for the records of a batch. After a loss, threads may have other names.
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

// isNaming reports whether a record tells of a new name, or of a new thread of that number.
func isNaming(r *perfring.Record) bool {
	return r.Type == perfring.TypeComm || r.Type == perfring.TypeFork
}

// note takes what a record says of a thread. Each record of a batch is noted, in their order.
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
			delete(t.names, r.TID) // the id can be used anew
		}
	case perfring.TypeExit:
		t.exited = append(t.exited, r.TID) // it still runs for a moment
	}
}

// set keeps a thread's name, as text: what it holds is any bytes, and the kernel cuts long ones in
// the middle of a character. Receivers refuse messages with strings that are not UTF-8.
func (t *threads) set(tid uint32, name string) {
	if len(t.names) >= maxThreads {
		clear(t.names)
	}
	t.names[tid] = strings.ToValidUTF8(name, "\uFFFD")
}

// name returns the name that a thread had, empty if it cannot be found out. /proc has the name
// of now: it is not read if a later record has another.
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

// forgetExited forgets the threads that have exited.
func (t *threads) forgetExited() {
	for _, tid := range t.exited {
		delete(t.names, tid)
	}
	t.exited = t.exited[:0]
}
