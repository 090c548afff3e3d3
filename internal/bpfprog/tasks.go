// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"encoding/hex"
	"strings"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// tasks are the functions that tasks have loaded, until a record says which program they
// are of. A task's records may be of several CPUs.
type tasks struct {
	loaded map[uint32][]*timeline.Image // by TID
	lost   int64                        // records of instants before this one are missing
}

// announce notes that a task has loaded a function. Nothing tells tasks of other PID namespaces
// apart: of which programs their functions are, a list says.
func (t *tasks) announce(rec *perfring.Record, m *timeline.Image) {
	if rec.TID != 0 && rec.TID != perfring.NoTask {
		t.loaded[rec.TID] = append(t.loaded[rec.TID], m)
	}
}

// identified applies the record of a program's load, which comes after those of its
// functions. Those before it may be another program's if records between are missing.
func (r *record) identified(rec *perfring.Record) {
	r.ask = append(r.ask, rec.Program.ID)
	functions := r.tasks.loaded[rec.TID]
	delete(r.tasks.loaded, rec.TID)
	if len(functions) == 0 || functions[0].Lifetime.From < r.tasks.lost {
		return
	}
	main := functions[0]
	tag := main.Tag() // a part of the name, which is kept anyway
	if loaded := hex.EncodeToString(rec.Program.Tag[:]); tag != loaded {
		if main.Name() != "" && len(functions) == 1 {
			return
		}
		tag = loaded // the name has none, or the first function's, which it is up to Linux 6.0
	}
	program := &timeline.Program{ID: rec.Program.ID, Tag: tag, Since: rec.Time}
	for i, m := range functions {
		if r.history.At(m.Start) != m {
			continue
		}
		known := r.of(m, program, nil, rec.Time)
		if own := ownSymbol(m, tag); i == 0 && own != m.Name() {
			known = known.WithName(own, rec.Time)
		}
		r.replace(m, known)
	}
}

// ownSymbol returns the symbol of a program whose tag is known, given its first function: what the
// kernel calls that in BTF, it calls the program. Without BTF, it calls any function F.
func ownSymbol(first *timeline.Image, tag string) string {
	if first.Tag() == "" || first.Tag() == tag || strings.HasSuffix(first.Name(), "_F") {
		return first.Name()
	}
	return strings.Replace(first.Name(), first.Tag(), tag, 1)
}
