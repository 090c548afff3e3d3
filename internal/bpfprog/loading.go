// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"encoding/hex"
	"strings"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// loading has the functions that tasks have loaded, until the record of the program's load follows. The records of one
// task may come from several CPUs.
type loading struct {
	byTask map[uint32][]*timeline.Image // by thread ID
	lost   int64                        // records from before this instant may be missing
}

// add records that a task has loaded a function. Tasks of other PID namespaces have no number here, so nothing tells
// them apart: a list shows which programs their functions belong to.
func (l *loading) add(rec *perfring.Record, m *timeline.Image) {
	if rec.TID != 0 && rec.TID != perfring.NoTask {
		l.byTask[rec.TID] = append(l.byTask[rec.TID], m)
	}
}

// take returns the functions that a task has loaded since its last program. There are none if records between them and
// the program's own may be missing: then they may belong to another program.
func (l *loading) take(task uint32) []*timeline.Image {
	functions := l.byTask[task]
	delete(l.byTask, task)
	if len(functions) > 0 && functions[0].Lifetime.From < l.lost {
		return nil
	}
	return functions
}

// handleProgramLoad applies the record of a program's load, which the kernel writes after the records of its functions.
func (f *follower) handleProgramLoad(rec *perfring.Record) {
	f.toQuery = append(f.toQuery, rec.Program.ID)
	functions := f.loading.take(rec.TID)
	if len(functions) == 0 {
		return
	}
	main := functions[0]
	tag := main.Tag() // part of the name, which is kept in memory anyway
	if loaded := hex.EncodeToString(rec.Program.Tag[:]); tag != loaded {
		if main.Name() != "" && len(functions) == 1 {
			return
		}
		tag = loaded // the name has no tag, or that of the first function, as it does up to Linux 6.0
	}
	program := &timeline.Program{ID: rec.Program.ID, Tag: tag, Since: rec.Time}
	for i, m := range functions {
		if f.ledger.At(m.Start) != m {
			continue
		}
		known := m.WithProgram(program, nil)
		if own := ownSymbol(m, tag); i == 0 && own != m.Name() {
			known = known.WithName(own, rec.Time)
		}
		f.ledger.Learn(m, known, rec.Time)
	}
}

// ownSymbol returns the symbol of a program with a tag, given its first function: the program has the name of that
// function in BTF. Without BTF, every function is called F.
func ownSymbol(first *timeline.Image, tag string) string {
	if first.Tag() == "" || first.Tag() == tag || strings.HasSuffix(first.Name(), "_F") {
		return first.Name()
	}
	return strings.Replace(first.Name(), first.Tag(), tag, 1)
}
