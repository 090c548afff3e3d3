// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"math"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// nameEvents are the records of threads and cgroups that no sample was attributed by yet, and the intervals in which such
// records are missing. Both are sorted by time.
type nameEvents struct {
	records []perfring.Record
	blind   []perfring.Interval
}

// noteNames applies what happened up to the time of a sample. A sample that was taken before records were lost has the name
// of that time, and one that was taken after that has none until the name is certain again.
//
//	records  ──●───────●┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄●─────────▶
//	blind              ├───────────────┤
//	names      ├───────┤                    ├────▶  read from /proc, or a record
func (s *session) noteNames(events *nameEvents, until int64) {
	for len(events.records) > 0 || len(events.blind) > 0 {
		next, lost := int64(math.MaxInt64), false
		if len(events.records) > 0 {
			next = events.records[0].Time
		}
		if len(events.blind) > 0 && events.blind[0].From < next {
			next, lost = events.blind[0].From, true
		}
		switch {
		case next > until:
			return
		case lost:
			s.loseNames(events.blind[0])
			events.blind = events.blind[1:]
		default:
			s.noteName(&events.records[0])
			events.records = events.records[1:]
		}
	}
}

// noteName applies a record of a thread or a cgroup.
func (s *session) noteName(r *perfring.Record) {
	if r.Type != perfring.TypeCgroup {
		s.threads.note(r)
	} else if s.cgroups != nil {
		s.cgroups.note(r.Cgroup)
	}
}

// loseNames notes that records of threads and cgroups may be missing.
func (s *session) loseNames(blind perfring.Interval) {
	s.threads.lose(blind)
	s.cgroups.miss(blind.To)
}

// nameOfThread returns the name that a thread had at a time, or an empty string if it is not known.
func (s *session) nameOfThread(tid uint32, at int64) string {
	if s.nameless {
		return ""
	}
	return s.threads.name(tid, at)
}
