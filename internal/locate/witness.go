// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"io"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// A witness finds out what the kernel says about the waits of one thread.
type witness struct {
	switches interface {
		Records() ([]perfring.Record, error)
	}
	wchan, stack io.ReaderAt

	noticed int // the number of the last wait that look has seen
	read    int // the number of the last wait that names were read of
	waits   []Wait
}

// look reads the names of a wait that was noticed before, and keeps them if it was the same wait until then. Where the files
// say nothing, there are no names.
func (w *witness) look() {
	number, addresses := w.waiting()
	switch number {
	case 0, w.read:
		return
	case w.noticed:
	default:
		w.noticed = number
		return
	}
	w.read = number
	wait := Wait{Addresses: addresses, Wchan: parseWchan(readFile(w.wchan)), Frames: parseStack(readFile(w.stack))}
	if after, _ := w.waiting(); after == number {
		w.waits = append(w.waits, wait)
	}
}

// waiting returns the stack of the thread if, by the last records, it has left its CPU to wait and has not got one since. Two
// waits have different numbers. If the thread does not wait, or records are missing, the number is 0.
func (w *witness) waiting() (number int, addresses []uint64) {
	records, err := w.switches.Records()
	n := len(records)
	if err != nil || n < 2 || records[n-1].Switch != perfring.SwitchBlocked || len(records[n-2].Stack) == 0 {
		return 0, nil
	}
	return n, records[n-2].Stack
}

// maxText is a size that the content of a file does not reach: the kernel prints at most 64 frames (MAX_STACK_TRACE_DEPTH in
// fs/proc/base.c), with names of up to 511 bytes.
const maxText = 64 << 10

// readFile reads a file from its beginning. It returns nothing for a file that cannot be read.
func readFile(f io.ReaderAt) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxText))
	if err != nil {
		return ""
	}
	return string(text)
}
