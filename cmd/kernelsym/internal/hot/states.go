// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/tasks"
)

// delays are the times that threads or processes could run but had no CPU, if they are known for all parts of a sum. They are
// nil for no part.
type delays map[member]time.Duration

// delaysOf returns the delays of a batch.
func (by Grouping) delaysOf(b *live.Batch) delays {
	if b.Delays == nil {
		return nil
	}
	d := make(delays)
	switch by {
	case ByThread:
		for tid, delay := range b.Delays.Threads {
			d[member{pid: int64(b.Threads[tid].PID), tid: int64(tid)}] = delay
		}
	case ByProcess:
		for pid, delay := range b.Delays.Processes {
			d[member{pid: int64(pid)}] = delay
		}
	}
	return d
}

// merge returns the sum of delays and those of another part.
func (d delays) merge(o delays) delays {
	if d == nil {
		return maps.Clone(o)
	}
	maps.DeleteFunc(d, func(m member, _ time.Duration) bool { _, ok := o[m]; return !ok })
	for m := range d {
		d[m] += o[m]
	}
	return d
}

// states are the states of the threads of a process, or of one thread.
type states map[string]int

// statesOf returns the states of the threads that wait, by their groups.
func (by Grouping) statesOf(threads tasks.Reading) map[member]states {
	all := make(map[member]states)
	for tid, t := range threads {
		if !t.Waits() {
			continue
		}
		m := by.memberOf(&task{pid: int64(t.PID), tid: int64(tid)})
		if all[m] == nil {
			all[m] = make(states)
		}
		all[m][string(t.State)]++
	}
	return all
}

// text returns the state of a thread, or how many threads of a process are in each state.
func (s states) text(by Grouping) string {
	var parts []string
	for _, state := range strings.Split(tasks.WaitStates, "") {
		switch n := s[state]; {
		case n > 0 && by == ByThread:
			return state
		case n > 0:
			parts = append(parts, fmt.Sprint(n, state))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}
