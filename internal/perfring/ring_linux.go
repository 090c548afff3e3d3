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
	fd      int
	cpu     int
	mapping []byte
	data    []byte // the records' part of mapping; its length is a power of two
	head    *uint64
	tail    *uint64
	wake    uint64 // the bytes that the kernel wakes us at
	wrapped []byte // a record that reached over the end of data
	enabled uint64 // time for which the event was counted, at the last look
}

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

// alive reports whether the event was counted since the last call. After its CPU
// was offline it is not, without a sign of that.
func (r *ring) alive() bool {
	var buf [16]byte // the count, and the time in nanoseconds for which it was counted
	n, err := unix.Read(r.fd, buf[:])
	if err != nil || n != len(buf) {
		return false
	}
	before := r.enabled
	r.enabled = binary.NativeEndian.Uint64(buf[8:])
	return r.enabled != before
}

func (r *ring) close() error {
	return errors.Join(unix.Munmap(r.mapping), unix.Close(r.fd))
}
