package perfring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ring is the event and the buffer of one CPU.
type ring struct {
	fd  int
	cpu int

	mapping []byte
	data    []byte // the records' part of mapping; its length is a power of two
	head    *uint64
	tail    *uint64
	wake    uint64 // the bytes that the kernel wakes us at
	wrapped []byte // a record that reached over the end of data
	crowded bool   // the next record might not have had room when it was drained last

	countsLost bool   // the kernel is asked how many records were lost
	enabled    uint64 // nanoseconds for which the event was counted, at the last look
	lostTotal  uint64 // records that were lost, at the last look
	lost       losses
}

// largestSymbolRecord is the size of the KSYMBOL record of the longest name, after a
// LOST record, and when there are some twenty other readers, which make it longer.
const largestSymbolRecord = headerLen + 16 + 512 + 21*sampleIDLen + headerLen + 16 + sampleIDLen

// ringSize returns the least power of two of pages that holds that many bytes.
func ringSize(bytes int) int {
	pages := max(1, (bytes+os.Getpagesize()-1)/os.Getpagesize())
	return os.Getpagesize() << bits.Len(uint(pages-1))
}

// drain passes all records to emit and frees their place. The bytes are valid
// until emit returns. It returns ErrMalformed if the positions or sizes in the
// ring cannot be; what was in it then is gone.
func (r *ring) drain(emit func(raw []byte)) error {
	head, tail := atomic.LoadUint64(r.head), *r.tail // only we write tail
	defer func() { atomic.StoreUint64(r.tail, head) }()
	size := uint64(len(r.data))
	r.crowded = head-tail+largestSymbolRecord > size
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

// isReady reports whether the ring is as full as it has to be to wake us.
func (r *ring) isReady() bool {
	return atomic.LoadUint64(r.head)-*r.tail >= r.wake
}

// bytes returns a part of the ring, as one piece.
func (r *ring) bytes(at, length uint64) []byte {
	if end := at + length; end <= uint64(len(r.data)) {
		return r.data[at:end]
	}
	r.wrapped = append(r.wrapped[:0], r.data[at:]...)
	r.wrapped = append(r.wrapped, r.data[:at+length-uint64(len(r.data))]...)
	return r.wrapped
}

// look asks the kernel how the event fares.
func (r *ring) look() error {
	var buf [24]byte // the count, the time for which it was counted, records lost
	want := len(buf)
	if !r.countsLost {
		want = 16
	}
	n, err := unix.Read(r.fd, buf[:])
	if err != nil {
		return fmt.Errorf("reading the perf event of CPU %d: %w", r.cpu, err)
	}
	if n != want {
		return fmt.Errorf("reading the perf event of CPU %d: %d bytes", r.cpu, n)
	}
	r.enabled = binary.NativeEndian.Uint64(buf[8:])
	r.lostTotal = binary.NativeEndian.Uint64(buf[16:])
	return nil
}

// alive reports whether the event was counted since the last look. After its CPU
// was offline it is not, without a sign of that.
func (r *ring) alive() bool {
	before := r.enabled
	return r.look() == nil && r.enabled != before
}

func (r *ring) close() error {
	return errors.Join(unix.Munmap(r.mapping), unix.Close(r.fd))
}
