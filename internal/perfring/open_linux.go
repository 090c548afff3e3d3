package perfring

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What samples and the ends of other records hold. parse relies on it.
const (
	sampleIDType = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU
	sampleType   = sampleIDType | unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_PERIOD | unix.PERF_SAMPLE_CALLCHAIN
)

// openRing opens the event on a CPU and maps its ring.
func openRing(opts *Options, on cpu) (*ring, error) {
	size := ringSize(opts.BytesPerCPU)
	attr := attrOf(opts.Event, size)
	opened := opts.Event.Clock().Now()
	fd, err := unix.PerfEventOpen(&attr, -1, on.number, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, openError(opts.Event, on.number, err)
	}
	mapping, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(fd) // nothing was written to it
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %w", ErrMemory, err)
		}
		return nil, fmt.Errorf("mapping the perf ring of CPU %d (%d bytes): %w", on.number, size, err)
	}
	// The page of metadata is page aligned, and with it its fields of 64 bits.
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(mapping)))
	return &ring{
		fd:      fd,
		cpu:     on,
		mapping: mapping,
		data:    mapping[os.Getpagesize():],
		head:    &page.Data_head,
		tail:    &page.Data_tail,
		wake:    uint64(attr.Wakeup),
		trail:   trail{last: opened, roomy: opened},
	}, nil
}

// The bits of struct perf_event_attr that golang.org/x/sys does not have. Both came
// with Linux 5.1.
const (
	bitKsymbol  = unix.CBitFieldMaskBit29
	bitBPFEvent = unix.CBitFieldMaskBit30
)

// attrOf returns what to ask the kernel for.
func attrOf(event Event, ringBytes int) unix.PerfEventAttr {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: sampleIDType,
		Clockid:     int32(event.Clock()),
		Bits:        unix.PerfBitWatermark | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
	}
	if sampling, ok := event.(Sampling); ok {
		sampling.complete(&attr, ringBytes)
	} else {
		attr.Config = unix.PERF_COUNT_SW_DUMMY // which never happens
		attr.Wakeup = 1                        // each record; wakeup_events counts samples only
		attr.Bits |= bitKsymbol | bitBPFEvent
	}
	return attr
}

// complete asks for samples and the names of threads.
func (s Sampling) complete(attr *unix.PerfEventAttr, ringBytes int) {
	attr.Config = unix.PERF_COUNT_SW_CPU_CLOCK
	attr.Sample = s.Frequency
	attr.Sample_type = sampleType
	attr.Sample_max_stack = s.MaxStack
	attr.Wakeup = uint32(ringBytes / 2) // a watermark, in bytes
	attr.Bits |= unix.PerfBitFreq | unix.PerfBitComm | unix.PerfBitTask |
		unix.PerfBitExcludeUser | unix.PerfBitExcludeHv | unix.PerfBitExcludeCallchainUser
	if s.Cycles {
		attr.Type, attr.Config = unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES
		attr.Bits |= unix.PerfBitExcludeGuest // whose samples would have no stack
	}
	if !s.Idle {
		attr.Bits |= unix.PerfBitExcludeIdle
	}
}

func openError(event Event, cpu int, err error) error {
	known := map[error]error{
		unix.EACCES:     ErrPermission,
		unix.EPERM:      ErrPermission,
		unix.ENOENT:     ErrUnsupported,
		unix.ENOSYS:     ErrUnsupported,
		unix.EOPNOTSUPP: ErrUnsupported,
		unix.EINVAL:     event.refused(), // all else that is checked is constant
	}[err]
	if known != nil {
		err = fmt.Errorf("%w: %w", known, err)
	}
	err = filesError(err)
	return fmt.Errorf("opening a perf event on CPU %d: %w", cpu, err)
}
