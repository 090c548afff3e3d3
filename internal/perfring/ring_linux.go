// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ring is the event and the buffer of one CPU.
type ring struct {
	fd    int
	tasks []int // events of threads, which also write to the buffer; if there are any, the event itself has no records
	cpu   cpu

	mapping []byte
	data    []byte // the part of mapping for records; its length is a power of two
	head    *uint64
	tail    *uint64
	wake    uint64 // number of bytes at which the kernel wakes us
	wrapped []byte // a record that wrapped around the end of data
	largest uint64 // size of the largest record, with a LOST record before it
	counts  bool   // whether the kernel counts the records that were lost
	has     recordFields
	losses  losses
	budget  budget
	trail   trail
}

// budget bounds how many bytes of a ring are parsed: its size at once, and its size in each refillTime. The rest is lost.
// The zero value has no bound.
type budget struct {
	size, left int64 // in bytes
	at         int64 // when it was last refilled
}

const refillTime = 100 * time.Millisecond

// budgetOf returns the budget of a ring for an event. Of names, there can be any number; other events are bounded by what
// they record.
func budgetOf(event Event, size int) budget {
	if _, ok := event.(Names); !ok {
		return budget{}
	}
	return budget{size: int64(size)}
}

func (b *budget) refill(now int64) {
	passed := min(now-b.at, int64(refillTime))
	b.left = min(b.size, b.left+b.size*passed/int64(refillTime))
	b.at = now
}

// take reports whether a record of that many bytes may be parsed.
func (b *budget) take(n int) bool {
	if b.size == 0 {
		return true
	}
	if b.left < int64(n) {
		return false
	}
	b.left -= int64(n)
	return true
}

// trail is the state of a ring from the time when it was last emptied.
type trail struct {
	last    int64  // time of the last record; at first, the time of opening the ring
	roomy   int64  // when there was last room for any record; the ring's records so far are older
	roomyAt uint64 // the position of the first record after that
}

// The sizes of the largest records: of KSYMBOL with the longest name and about twenty other readers, which make it
// longer; and of CGROUP with the longest path.
const (
	lostRecord          = headerLen + 16 + sampleIDLen
	largestSymbolRecord = lostRecord + headerLen + 16 + 512 + 21*sampleIDLen
	largestCgroupRecord = lostRecord + headerLen + 8 + MaxCgroupPath + sampleIDLen
)

// drain passes all records to emit and frees their space. The bytes are valid until emit
// returns. It returns ErrMalformed if the positions or sizes in the ring are impossible; the
// content of the ring is then lost.
func (r *ring) drain(emit func(raw []byte)) error {
	head, tail := atomic.LoadUint64(r.head), *r.tail // only we write tail
	defer func() { atomic.StoreUint64(r.tail, head) }()
	size := uint64(len(r.data))
	if head-tail > size {
		return fmt.Errorf("%w: %d bytes in a ring of %d", ErrMalformed, head-tail, size)
	}
	for tail < head {
		// Records are aligned and so is the ring: a header never wraps.
		at := tail & (size - 1)
		if size-at < headerLen {
			return fmt.Errorf("%w: at %d", ErrMalformed, tail)
		}
		length := uint64(binary.NativeEndian.Uint16(r.data[at+6:]))
		if length < headerLen || length%recordAlign != 0 || length > head-tail {
			return fmt.Errorf("%w: %d bytes where %d are left", ErrMalformed, length, head-tail)
		}
		emit(r.bytes(at, length))
		tail += length
	}
	return nil
}

// mayParse reports whether the budget allows a record to be parsed. It always allows one that says how many were lost.
func (r *ring) mayParse(raw []byte) bool {
	return Type(binary.NativeEndian.Uint32(raw)) == TypeLost || r.budget.take(len(raw))
}

// used returns the number of unread bytes.
func (r *ring) used() uint64 { return atomic.LoadUint64(r.head) - *r.tail }

func (r *ring) isEmpty() bool { return r.used() == 0 }

// isReady reports whether the ring is full enough to wake us.
func (r *ring) isReady() bool { return r.used() >= r.wake }

// isFilling reports whether the ring should be emptied soon.
func (r *ring) isFilling() bool { return r.used() > uint64(len(r.data)/4) }

// wasCrowded reports whether a record may have found no room while the records from a position
// on were in the ring. Call it after reading them: until then, the kernel could not overwrite
// them.
func (r *ring) wasCrowded(from uint64) bool {
	return atomic.LoadUint64(r.head)-from+r.largest > uint64(len(r.data))
}

// noteRoom records the time if the ring has room for any record.
func (r *ring) noteRoom(clock Clock) {
	head := atomic.LoadUint64(r.head)
	if head-*r.tail+r.largest <= uint64(len(r.data)) {
		r.trail.roomyAt, r.trail.roomy = head, clock.Now() // in this order: there was room before that time
	}
}

// lossEnd returns the time at which the loss that a LOST record announces was over. The kernel
// writes a LOST record just before the next record that fits. If it is the first record since
// there was room for any record, nothing was lost after that time, however long ago it is.
func (r *ring) lossEnd(at uint64, time int64) int64 {
	if at == r.trail.roomyAt {
		return min(r.trail.roomy, time)
	}
	return time
}

// bytes returns a part of the ring in one piece.
func (r *ring) bytes(at, length uint64) []byte {
	if end := at + length; end <= uint64(len(r.data)) {
		return r.data[at:end]
	}
	r.wrapped = append(r.wrapped[:0], r.data[at:]...)
	r.wrapped = append(r.wrapped, r.data[:at+length-uint64(len(r.data))]...)
	return r.wrapped
}

// each calls a function for each event that writes to the ring.
func (r *ring) each(do func(fd int) error) error {
	err := do(r.fd)
	for _, fd := range r.tasks {
		err = errors.Join(err, do(fd))
	}
	return err
}

func (r *ring) close() error {
	return errors.Join(unix.Munmap(r.mapping), r.each(unix.Close))
}
