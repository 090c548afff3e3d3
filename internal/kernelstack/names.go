// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"fmt"
	"math"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// names attributes samples to threads and containers, as of a record that is being applied.
type names struct {
	threads  *threads
	cgroups  *cgroups // nil if the owners are not known
	nameless bool     // records of threads and cgroups are missing all the time: threads have no names

	// The records of threads and cgroups in the batch that were not applied yet, and the intervals in which such records are
	// missing. Both are sorted by time.
	records []perfring.Record
	blind   []perfring.Interval
}

// readAll reads the names that threads have now. Records must have begun.
func (n *names) readAll() {
	if !procfs.IsOurs(n.threads.procfs) {
		n.threads.procfs = "" // its thread ids belong to other threads
	}
	if !n.nameless {
		n.threads.readAll()
	}
}

// begin begins a batch. It forgets the cgroups if the ids in the batch may mean others; the error says why.
func (n *names) begin(b *perfring.Batch) error {
	n.records, n.blind = b.Names.Records, b.Names.Blind
	if n.cgroups == nil {
		return nil
	}
	if err := n.cgroups.check(); err != nil {
		n.cgroups = nil
		return fmt.Errorf("%w: %w", ErrContainers, err)
	}
	if n.nameless {
		n.cgroups.miss(b.At)
	}
	return nil
}

// advance applies what happened up to the time of a sample. A sample that was taken before records were lost has the name
// of that time, and one that was taken after that has none until the name is certain again.
//
//	records  ──●───────●┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄●─────────▶
//	blind              ├───────────────┤
//	names      ├───────┤                    ├────▶  read from /proc, or a record
func (n *names) advance(until int64) {
	for len(n.records) > 0 || len(n.blind) > 0 {
		next, lost := int64(math.MaxInt64), false
		if len(n.records) > 0 {
			next = n.records[0].Time
		}
		if len(n.blind) > 0 && n.blind[0].From < next {
			next, lost = n.blind[0].From, true
		}
		switch {
		case next > until:
			return
		case lost:
			n.lose(n.blind[0])
			n.blind = n.blind[1:]
		default:
			n.note(&n.records[0])
			n.records = n.records[1:]
		}
	}
}

// note applies a record of a thread or a cgroup.
func (n *names) note(r *perfring.Record) {
	if r.Type != perfring.TypeCgroup {
		n.threads.note(r)
	} else if n.cgroups != nil {
		n.cgroups.note(r.Cgroup)
	}
}

// lose notes that records of threads and cgroups may be missing.
func (n *names) lose(blind perfring.Interval) {
	n.threads.lose(blind)
	n.cgroups.miss(blind.To)
}

// ofThread returns the name that a thread had at a time, or an empty string if it is not known.
func (n *names) ofThread(tid uint32, at int64) string {
	if n.nameless {
		return ""
	}
	return n.threads.name(tid, at)
}
