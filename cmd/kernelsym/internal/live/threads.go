// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"fmt"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/tasks"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// maxThreads is the number of threads that are read for each batch at most. Reading one takes 30 µs or more.
const maxThreads = 4096

// ErrManyThreads says that threads were not read because there are too many.
var ErrManyThreads = fmt.Errorf("there are more than %d threads: select some with -p or -t", maxThreads)

// threads reads from /proc what records do not have of threads that wait.
type threads struct {
	procfs   string
	of       tasks.Selection
	states   bool
	most     int           // threads that are read; beyond that, none are
	last     tasks.Reading // with states; nil if it failed
	noBefore error         // why threads that have waited since before the start may be missing
}

// begin reads the threads when recording begins. It returns the selected threads that are blocked, and none if all threads are
// selected: reading their stacks takes long.
func (t *threads) begin() []kernelstack.Blocked {
	if t.states {
		t.last, _ = t.read() // without it, there are no delays
	}
	if t.of.IsAll() {
		return nil
	}
	reader := tasks.Reader{Procfs: t.procfs, States: tasks.WaitStates, Of: t.of}
	read, err := reader.Read()
	if t.noBefore = err; err == nil {
		t.noBefore = reader.Reason
	}
	blocked := make([]kernelstack.Blocked, 0, len(read))
	for _, task := range read {
		b := kernelstack.Blocked{PID: task.PID, TID: task.TID, CPU: task.CPU, Exits: task.Exits}
		for _, f := range task.Stack {
			if f.Function == "" {
				continue
			}
			b.Stack = append(b.Stack, kernelstack.Function{Name: f.Function, File: cmp.Or(f.Module, timeline.KernelName)})
		}
		blocked = append(blocked, b)
	}
	return blocked
}

// recorded returns the selected threads, for events of their own.
func (t *threads) recorded() (list []perfring.Task, err error) {
	all, complete := t.of.Threads(t.procfs)
	if !complete {
		return nil, fmt.Errorf("%w: they begin and end all the time", perfring.ErrTasks)
	}
	for tid, isOfProcess := range all {
		list = append(list, perfring.Task{TID: tid, New: isOfProcess})
	}
	return list, nil
}

func (t *threads) read() (tasks.Reading, error) {
	reading := t.of.Read(t.procfs, t.most)
	if reading == nil {
		return nil, ErrManyThreads
	}
	return reading, nil
}

// addTo adds what /proc shows now to a batch that ends now.
func (t *threads) addTo(b *Batch) {
	b.NoBefore = t.noBefore
	if !t.states {
		return
	}
	b.Threads, b.NoThreads = t.read()
	delays := b.Threads.DelaysSince(t.last)
	b.Delays = &delays
	t.last = b.Threads
}
