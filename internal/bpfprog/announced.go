// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"encoding/hex"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// announced is what records have announced lately.
type announced struct {
	// held are images that the history does not have yet: once it is known of which program
	// a function is, it is recorded with that, which is one change instead of several.
	// Nothing is known to have been unloaded since.
	held []*symtab.Image

	// tasks are the functions that a task has loaded, until a record says which program
	// they are. Its records may be of several CPUs.
	tasks map[uint64][]*symtab.Image
}

// maxHeld is how many images are held at most: they are searched.
const maxHeld = 64

// taskOf returns what tells tasks apart: of those in other PID namespaces, the CPU.
func taskOf(rec *perfring.Record) uint64 {
	if rec.TID == 0 || rec.TID == perfring.NoTask {
		return 1<<32 + uint64(rec.CPU)
	}
	return uint64(rec.TID)
}

// identified applies the record of a program's load, which comes after those of its
// functions. Those before it may be another program's if records between were lost.
func (r *record) identified(rec *perfring.Record, lost bool) {
	r.ask = append(r.ask, rec.Program.ID)
	functions := r.tasks[taskOf(rec)]
	delete(r.tasks, taskOf(rec))
	if lost || len(functions) == 0 {
		return
	}
	tag := functions[0].Tag() // a part of the name, which is kept anyway
	switch loaded := hex.EncodeToString(rec.Program.Tag[:]); {
	case functions[0].Name() == "":
		tag = loaded
	case tag != loaded:
		return
	}
	program := &symtab.Program{ID: rec.Program.ID, Tag: tag, Single: len(functions) == 1}
	for _, m := range functions {
		if r.at(m.Start) == m {
			r.replace(m, m.Of(program, nil))
		}
	}
}
