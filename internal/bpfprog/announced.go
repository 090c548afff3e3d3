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

	// tasks are the functions that a task has loaded, by its TID, until a record says which
	// program they are. Its records may be of several CPUs.
	tasks map[uint32][]*symtab.Image

	lost int64 // records of instants before this one are missing
}

// maxHeld is how many images are held at most: they are searched.
const maxHeld = 64

// announce notes that a task has loaded a function. Nothing tells tasks of other PID namespaces
// apart: of which programs their functions are, a list says.
func (a *announced) announce(rec *perfring.Record, m *symtab.Image) {
	if rec.TID != 0 && rec.TID != perfring.NoTask {
		a.tasks[rec.TID] = append(a.tasks[rec.TID], m)
	}
}

// identified applies the record of a program's load, which comes after those of its
// functions. Those before it may be another program's if records between are missing.
func (r *record) identified(rec *perfring.Record) {
	r.ask = append(r.ask, rec.Program.ID)
	functions := r.tasks[rec.TID]
	delete(r.tasks, rec.TID)
	if len(functions) == 0 || functions[0].Lifetime.From < r.lost {
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
