// SPDX-License-Identifier: Apache-2.0

package kernelstack

import "github.com/kernelsym/kernelsym/internal/perfring"

// A Function is a function of the kernel whose name is known, and whose address is not.
type Function struct {
	Name string
	File string // of the mapping: the name of its module, or timeline.KernelName
}

// Blocked is a thread that was off the CPU when it was read.
type Blocked struct {
	PID, TID, CPU uint32     // the CPU that it left
	Exits         bool       // it is ending
	Stack         []Function // the innermost first
}

// KeyBefore is the attribute of samples of waits that began before recording. Only [Waiting.Before] makes such samples.
const KeyBefore = "kernelsym.wait.before"

// functions gives functions numbers, which stand for them in stacks. They are no addresses of the kernel. The zero value has
// none.
type functions struct {
	list    []Function
	numbers map[Function]uint64
}

func (f *functions) numbersOf(stack []Function) []uint64 {
	numbers := make([]uint64, 0, len(stack))
	for _, fn := range stack {
		n, ok := f.numbers[fn]
		if !ok {
			if f.numbers == nil {
				f.numbers = make(map[Function]uint64)
			}
			n = firstFunction + uint64(len(f.list))
			f.numbers[fn] = n
			f.list = append(f.list, fn)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// at returns the function with a number. It reports false for an address.
func (f *functions) at(number uint64) (fn Function, ok bool) {
	if f == nil || number < firstFunction || number-firstFunction >= uint64(len(f.list)) {
		return Function{}, false
	}
	return f.list[number-firstFunction], true
}

// blocked are threads that were blocked when they were read, after recording had begun. They have waited all the time if no
// record is of the time before they were read:
//
//	recording   ├──from─────────read──────────────────────▶
//	waits all the time  ────────────────────in
//	does not            ───in───────────
type blocked struct {
	waits      map[uint32]wait // by thread id
	from, read int64
}

// expect begins with threads that were blocked when they were read, and recording from then on.
func (w *waits) expect(b blocked) { w.blocked = b }

// decide opens the wait of a thread that was read blocked, unless its first record is of the time before that.
func (w *waits) decide(tid uint32, first int64) {
	t, ok := w.blocked.waits[tid]
	if !ok {
		return
	}
	delete(w.blocked.waits, tid)
	switch {
	case first <= w.blocked.read:
	case len(w.open) >= maxThreads:
		w.counts.Unknown.Threads++
	default:
		w.open[tid] = t
	}
}

// decideAll opens the waits of all threads that were read blocked if all records of the time before that were applied.
func (w *waits) decideAll(certain int64) {
	if certain <= w.blocked.read {
		return
	}
	for tid := range w.blocked.waits {
		w.decide(tid, certain)
	}
}

// begin reads the threads that are blocked when recording begins. Threads that are ending have no
// events of their own: perf_event_open refuses them, so no record would end their waits.
func (w *waiting) begin(from int64) {
	if w.before == nil {
		return
	}
	b := blocked{waits: make(map[uint32]wait), from: from}
	for _, t := range w.before() {
		if len(t.Stack) > 0 && (!w.canEnd || !t.Exits) {
			b.waits[t.TID] = wait{
				stack: w.out.form.functions.numbersOf(t.Stack), pid: t.PID, tid: t.TID, cpu: t.CPU, before: true, from: from, reported: from,
			}
		}
	}
	b.read = perfring.Monotonic.Now()
	w.waits.expect(b)
}
