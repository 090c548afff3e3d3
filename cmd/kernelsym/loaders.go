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

// loaders remember which process is behind a record, from when it is read until the
// table is published that has it. One source uses them.
type loaders struct {
	processes procname.Names
	by        map[moment]process
	loads     map[uint64]int64 // when what was loaded at an address last was
	gone      []brief          // since the last call of unseen
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
		l.by, l.loads, l.gone = make(map[moment]process), make(map[uint64]int64), nil
	}
}

// noting is a recorder whose records are noted.
type noting struct {
	bpfprog.Recorder
	loaders *loaders
}

func (n noting) Drain() perfring.Batch {
	b := n.Recorder.Drain()
	n.loaders.note(b.Records)
	return b
}

func (l *loaders) note(records []perfring.Record) {
	const enough = 1 << 16 // some are never asked for, as they were no change
	if len(l.by) > enough {
		l.begin()
	}
	names := make(map[uint32]string)
	for i := range records {
		r := &records[i]
		if r.Type != perfring.TypeKsymbol {
			continue
		}
		name, ok := names[r.PID]
		if !ok {
			name = l.processes.Of(r.PID)
			names[r.PID] = name
		}
		at := moment{r.Symbol.Addr, r.Time}
		l.by[at] = process{PID: r.PID, Name: name}
		if !r.Symbol.Unregister {
			l.loads[at.addr] = at.at
		} else if loaded, ok := l.loads[at.addr]; ok {
			l.gone = append(l.gone, brief{moment{at.addr, loaded}, at})
			delete(l.loads, at.addr)
		}
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

// take returns who did something, nil if no record said so.
func (l *loaders) take(addr uint64, at int64) *process {
	if l == nil {
		return nil
	}
	key := moment{addr, at}
	p, ok := l.by[key]
	if !ok {
		return nil
	}
	delete(l.by, key)
	return &p
}

// has reports whether a record said who did something.
func (l *loaders) has(addr uint64, at int64) bool {
	if l == nil {
		return false
	}
	_, ok := l.by[moment{addr, at}]
	return ok
}
