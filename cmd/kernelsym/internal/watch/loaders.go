// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

// moment identifies a load or unload by its address, and by its time on the clock of records.
type moment struct {
	addr uint64
	at   int64
}

// loaders remembers records, and the processes behind loads, from the time that the records are
// read until a table that includes them is published. It serves one source.
type loaders struct {
	processes procname.Names
	by        map[moment]*procname.Process // the process is nil if uncertain
	loads     map[uint64]int64             // time of the last load at each address
	gone      []brief                      // code loaded and unloaded since the last call of unseen
}

// brief is code that was loaded and then unloaded.
type brief struct{ load, unload moment }

func newLoaders(procfs string) *loaders {
	l := &loaders{processes: procname.In(procfs)}
	l.begin()
	return l
}

// begin forgets everything. Code that was loaded earlier is not shown.
func (l *loaders) begin() {
	if l != nil {
		l.by, l.loads, l.gone = make(map[moment]*procname.Process), make(map[uint64]int64), nil
	}
}

// noting is a source of records that passes them on to loaders, too.
type noting struct {
	bpfprog.EventSource
	loaders *loaders
}

func (n noting) Poll() perfring.Batch {
	b := n.EventSource.Poll()
	n.loaders.note(b.Records)
	return b
}

func (l *loaders) note(records []perfring.Record) {
	const enough = 1 << 16 // some records are no change and are never looked up
	if len(l.by) > enough {
		l.begin()
	}
	processes := make(map[uint32]*procname.Process)
	for i := range records {
		r := &records[i]
		if r.Type != perfring.TypeKsymbol {
			continue
		}
		at := moment{r.Symbol.Addr, r.Time}
		if r.Symbol.Unregister {
			l.by[at] = nil // an unload can run in any task that an interrupt hits (call_rcu)
			if loaded, ok := l.loads[at.addr]; ok {
				l.gone = append(l.gone, brief{moment{at.addr, loaded}, at})
				delete(l.loads, at.addr)
			}
			continue
		}
		if _, ok := processes[r.PID]; !ok {
			processes[r.PID] = l.processes.Process(r.PID)
		}
		l.by[at], l.loads[at.addr] = processes[r.PID], at.at
	}
}

// unseen returns the number of pieces of code that were loaded and unloaded without appearing in a
// table. It must be called after a table was shown, which includes the records before it.
func (l *loaders) unseen() (n int) {
	if l == nil {
		return 0
	}
	for _, b := range l.gone {
		if l.has(b.load.addr, b.load.at) {
			n++
			delete(l.by, b.load)
			delete(l.by, b.unload)
		}
	}
	l.gone = l.gone[:0]
	return n
}

// take removes the record of an event. It reports whether there was one, and returns the process
// that caused the event, or nil if that is uncertain.
func (l *loaders) take(addr uint64, at int64) (by *procname.Process, recorded bool) {
	if !l.has(addr, at) {
		return nil, false
	}
	key := moment{addr, at}
	by = l.by[key]
	delete(l.by, key)
	return by, true
}

// has reports whether there is a record of an event.
func (l *loaders) has(addr uint64, at int64) bool {
	if l == nil {
		return false
	}
	_, ok := l.by[moment{addr, at}]
	return ok
}
