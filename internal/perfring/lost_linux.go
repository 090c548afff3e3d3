// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"encoding/binary"
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// losses tracks the records that a ring had no room for.
type losses struct {
	announced uint64 // by LOST records
	counted   uint64 // in batches

	// Records may have been lost before the record at a position. Reading that record answers
	// it.
	open bool
	at   uint64
}

// more returns how many of all lost records no batch has counted yet.
func (l *losses) more(all uint64) uint64 {
	before := l.counted
	l.counted = max(all, before)
	return l.counted - before
}

// noteCrowded records that there may have been losses until now. If they were, the kernel says
// so before the next record.
func (r *ring) noteCrowded() { r.losses.open, r.losses.at = true, atomic.LoadUint64(r.head) }

// notePosition notes that the record at a position was read, and with it any loss before it.
func (l *losses) notePosition(at uint64) {
	if at >= l.at {
		l.open = false
	}
}

// unannounced returns the number of lost records that no LOST record has announced; the kernel
// writes one only with the next record. It is for a ring that was just emptied for the last
// time. If the kernel does not count lost records (before Linux 6.0), a possible loss counts as
// 1.
func (r *ring) unannounced() uint64 {
	if all, ok := r.lostInAll(); ok {
		return r.losses.more(all)
	}
	if !r.losses.open {
		return 0
	}
	r.losses.open = false
	return r.losses.more(r.losses.counted + 1)
}

// lostInAll asks the kernel how many records the ring has lost since it was opened. Each event counts its own.
func (r *ring) lostInAll() (n uint64, ok bool) {
	if !r.counts {
		return 0, false
	}
	err := r.each(func(fd int) error {
		var values [16]byte // the event's count, then the lost records (struct read_format)
		length, err := unix.Read(fd, values[:])
		if err == nil && length < len(values) {
			err = io.ErrUnexpectedEOF
		}
		n += binary.NativeEndian.Uint64(values[8:])
		return err
	})
	return n, err == nil
}
