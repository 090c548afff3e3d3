package perfring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"

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
	wrapped []byte // a record that reached over the end of data
	enabled uint64 // time for which the event was counted, at the last look
}

// sampleType is what samples and the ends of other records hold. parse relies on
// it.
const sampleType = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
	unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_PERIOD | unix.PERF_SAMPLE_CALLCHAIN

// openRing opens the event on a CPU and maps its ring.
func openRing(opts *Options, cpu int) (*ring, error) {
	attr := attrOf(opts)
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, openError(cpu, err)
	}
	size := ringSize(opts.BytesPerCPU)
	mapping, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(fd) // nothing was written to it
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %w", ErrMemory, err)
		}
		return nil, fmt.Errorf("mapping the perf ring of CPU %d (%d bytes): %w", cpu, size, err)
	}
	// The page of metadata is page aligned, and with it its fields of 64 bits.
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(mapping)))
	return &ring{
		fd:      fd,
		cpu:     cpu,
		mapping: mapping,
		data:    mapping[os.Getpagesize():],
		head:    &page.Data_head,
		tail:    &page.Data_tail,
	}, nil
}

// ringSize returns the least power of two of pages that holds that many bytes.
func ringSize(bytes int) int {
	pages := max(1, (bytes+os.Getpagesize()-1)/os.Getpagesize())
	return os.Getpagesize() << bits.Len(uint(pages-1))
}

func attrOf(opts *Options) unix.PerfEventAttr {
	attr := unix.PerfEventAttr{
		Type:             unix.PERF_TYPE_SOFTWARE,
		Size:             uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config:           unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample:           opts.Event.Frequency,
		Sample_type:      sampleType,
		Sample_max_stack: opts.Event.MaxStack,
		Read_format:      unix.PERF_FORMAT_TOTAL_TIME_ENABLED,
		Wakeup:           uint32(ringSize(opts.BytesPerCPU) / 2), // a watermark, in bytes
		Clockid:          unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitFreq | unix.PerfBitWatermark | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID |
			unix.PerfBitExcludeUser | unix.PerfBitExcludeHv | unix.PerfBitExcludeCallchainUser |
			unix.PerfBitComm | unix.PerfBitTask,
	}
	if opts.Event.Cycles {
		attr.Type, attr.Config = unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES
		attr.Bits |= unix.PerfBitExcludeGuest // whose samples would have no stack
	}
	if !opts.Event.Idle {
		attr.Bits |= unix.PerfBitExcludeIdle
	}
	return attr
}

func openError(cpu int, err error) error {
	known := map[error]error{
		unix.EACCES:     ErrPermission,
		unix.EPERM:      ErrPermission,
		unix.ENOENT:     ErrUnsupported,
		unix.ENOSYS:     ErrUnsupported,
		unix.EOPNOTSUPP: ErrUnsupported,
		unix.EINVAL:     ErrRate, // all else that is checked is constant
	}[err]
	if known != nil {
		err = fmt.Errorf("%w: %w", known, err)
	}
	err = filesError(err)
	return fmt.Errorf("opening a perf event on CPU %d: %w", cpu, err)
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

// isHalfFull reports whether the ring is as full as it has to be to wake us.
func (r *ring) isHalfFull() bool {
	return atomic.LoadUint64(r.head)-*r.tail >= uint64(len(r.data)/2)
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
