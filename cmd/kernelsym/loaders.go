// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

// moment is when something was at an address, on the clock of records.
type moment struct {
	addr uint64
	at   int64
}

// loaders remember records, and which process is behind those of loads, from when they are
// read until the table is published that has them. One source uses them.
type loaders struct {
	processes procname.Names
	by        map[moment]*procname.Process // nil if that is not certain
	loads     map[uint64]int64             // when what was loaded at an address last was
	gone      []brief                      // since the last call of unseen
}

// brief is what was loaded and unloaded.
type brief struct{ load, unload moment }

func newLoaders(procfs string) *loaders {
	l := &loaders{processes: procname.In(procfs)}
	l.begin()
	return l
}

// begin forgets everything: what was there before is not shown.
func (l *loaders) begin() {
	if l != nil {
		l.by, l.loads, l.gone = make(map[moment]*procname.Process), make(map[uint64]int64), nil
	}
}

// noting is a recorder whose records are noted.
type noting struct {
	bpfprog.EventSource
	loaders *loaders
}

func (n noting) Drain() perfring.Batch {
	b := n.EventSource.Drain()
	n.loaders.note(b.Records)
	return b
}

func (l *loaders) note(records []perfring.Record) {
	const enough = 1 << 16 // some are never asked for, as they were no change
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
			l.by[at] = nil // an unload can run in whatever task an interrupt met (call_rcu)
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

// unseen returns how much was loaded and unloaded again that no table has shown. It is called when
// a table was, so that the records before it are in it.
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

// take reports whether a record said that something happened, and returns who did it, nil if
// that is not certain.
func (l *loaders) take(addr uint64, at int64) (by *procname.Process, recorded bool) {
	if !l.has(addr, at) {
		return nil, false
	}
	key := moment{addr, at}
	by = l.by[key]
	delete(l.by, key)
	return by, true
}

// has reports whether a record said that something happened.
func (l *loaders) has(addr uint64, at int64) bool {
	if l == nil {
		return false
	}
	_, ok := l.by[moment{addr, at}]
	return ok
}
