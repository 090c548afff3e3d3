// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openRing opens the event on a CPU and maps its ring.
func openRing(opts *Options, on cpu) (*ring, error) {
	size := RingSize(opts.BytesPerCPU)
	attr, err := attrOf(opts.Event, on.number, size)
	if err != nil {
		return nil, err
	}
	opened := opts.Event.Clock().Now()
	tasks := tasksOf(opts.Event)
	own := attr
	if tasks != nil {
		own = withoutRecords(attr)
	}
	fd, err := openEvent(&own, on.number)
	if err != nil {
		return nil, openError(opts.Event, on.number, err)
	}
	mapping, page, err := mapRing(fd, on.number, size)
	if err != nil {
		_ = unix.Close(fd) // nothing was written to it
		return nil, err
	}
	attr.Read_format = own.Read_format
	var others []int
	if tasks != nil {
		if others, err = openTasks(tasks, &attr, on.number, fd); err != nil {
			return nil, errors.Join(err, unix.Munmap(mapping), unix.Close(fd))
		}
	}
	return &ring{
		fd:      fd,
		tasks:   others,
		cpu:     on,
		mapping: mapping,
		data:    mapping[os.Getpagesize():],
		head:    &page.Data_head,
		tail:    &page.Data_tail,
		wake:    uint64(attr.Wakeup),
		largest: largestRecord(attr.Bits),
		counts:  attr.Read_format != 0,
		has:     recordFields(attr.Sample_type),
		budget:  budgetOf(opts.Event, size),
		trail:   trail{last: opened, roomy: opened},
	}, nil
}

func largestRecord(bits uint64) uint64 {
	if bits&bitCgroup != 0 {
		return largestCgroupRecord
	}
	return largestSymbolRecord
}

// ownThread stands in the place of a CPU's number for the calling thread, whichever CPU it is on.
const ownThread = -1

// nameOf returns what an event is opened on, for errors.
func nameOf(cpu int) string {
	if cpu == ownThread {
		return "a thread"
	}
	return fmt.Sprintf("CPU %d", cpu)
}

// openEvent opens an event on a CPU, of all threads there, or on ownThread. The event counts lost records if the kernel
// supports that (since Linux 6.0; older kernels refuse it).
func openEvent(attr *unix.PerfEventAttr, cpu int) (fd int, err error) {
	thread := -1 // all
	if cpu == ownThread {
		thread = 0
	}
	for _, attr.Read_format = range []uint64{unix.PERF_FORMAT_LOST, 0} {
		fd, err = unix.PerfEventOpen(attr, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	return fd, err
}

// mapRing maps an event's page of metadata and that many bytes of records.
func mapRing(fd, cpu, size int) (mapping []byte, page *unix.PerfEventMmapPage, err error) {
	mapping, err = unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %w", ErrMemory, err)
		}
		return nil, nil, fmt.Errorf("mapping the perf ring of %s (%d bytes): %w", nameOf(cpu), size, err)
	}
	// The page of metadata is page-aligned, so its 64-bit fields are aligned, too.
	return mapping, (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(mapping))), nil
}

// The bits of struct perf_event_attr that golang.org/x/sys does not have.
const (
	bitKsymbol  = unix.CBitFieldMaskBit29 // since Linux 5.1
	bitBPFEvent = unix.CBitFieldMaskBit30 // since Linux 5.1
	bitCgroup   = unix.CBitFieldMaskBit32 // since Linux 5.7

	bitInheritThread = unix.CBitFieldMaskBit35 // since Linux 5.13
)

// CgroupID returns the id that a cgroup has in records, by its directory. On 32-bit kernels, records use other ids.
func CgroupID(directory fs.FileInfo) uint64 { return directory.Sys().(*syscall.Stat_t).Ino }

// CgroupWriter returns the owner of a cgroup's directory, and whether only the owner, and root, can write to it.
func CgroupWriter(directory fs.FileInfo) (uid uint32, only bool) {
	const othersWrite = 0o022
	return directory.Sys().(*syscall.Stat_t).Uid, directory.Mode()&othersWrite == 0
}

// CheckCgroups returns ErrUnsupported if this kernel cannot record the cgroups of samples, or another error if it cannot
// be asked. It needs the same privileges as Open.
func CheckCgroups() error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: uint64(fieldCgroup), Bits: unix.PerfBitDisabled | bitCgroup,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: the cgroups of samples need Linux 5.7", ErrUnsupported)
	case err != nil:
		return filesError(fmt.Errorf("opening a perf event: %w", err))
	}
	return unix.Close(fd)
}

// attrOf returns the attributes of an event.
func attrOf(event Event, cpu, ringBytes int) (unix.PerfEventAttr, error) {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: uint64(endFields),
		Clockid:     int32(event.Clock()),
		Bits:        unix.PerfBitWatermark | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
	}
	switch event := event.(type) {
	case Sampling:
		completeStacks(&attr, ringBytes, event.Cgroups)
		err := event.complete(&attr, cpu)
		return attr, err
	case Switches:
		completeStacks(&attr, ringBytes, event.Cgroups)
		attr.Config, attr.Sample = unix.PERF_COUNT_SW_CONTEXT_SWITCHES, 1
		attr.Bits |= unix.PerfBitContextSwitch | unix.PerfBitTask
	case Names:
		attr.Config = unix.PERF_COUNT_SW_DUMMY // which never happens
		attr.Sample_type = uint64(nameFields)
		attr.Wakeup = uint32(ringBytes) // nobody waits, and 0 would mean half of it
		attr.Bits |= unix.PerfBitComm | unix.PerfBitTask
		if event.Cgroups {
			attr.Bits |= bitCgroup
		}
	default:
		attr.Config = unix.PERF_COUNT_SW_DUMMY
		attr.Wakeup = 1 // each record; wakeup_events counts samples only
		attr.Bits |= bitKsymbol | bitBPFEvent
	}
	return attr, nil
}

// completeStacks adds the attributes for samples with stacks and cgroups.
func completeStacks(attr *unix.PerfEventAttr, ringBytes int, cgroups bool) {
	attr.Sample_type = uint64(sampleFields)
	attr.Wakeup = uint32(ringBytes / 2) // a watermark, in bytes
	attr.Bits |= unix.PerfBitExcludeHv | unix.PerfBitExcludeCallchainUser
	if cgroups {
		attr.Sample_type |= uint64(fieldCgroup)
	}
}

// complete adds the attributes that say when a sample is taken.
func (s Sampling) complete(attr *unix.PerfEventAttr, cpu int) error {
	if !s.Idle {
		attr.Bits |= unix.PerfBitExcludeIdle
	}
	if s.Cycles {
		rate, err := tscRate(cpu)
		if err != nil {
			return err
		}
		s.completeCycles(attr, rate)
		return nil
	}
	// A timer that fires in a guest does not count as user code: by then, the CPU is back in
	// the kernel.
	attr.Config, attr.Sample = unix.PERF_COUNT_SW_CPU_CLOCK, s.Frequency
	attr.Bits |= unix.PerfBitFreq
	if !s.User {
		attr.Bits |= unix.PerfBitExcludeUser
	}
	return nil
}

// completeCycles asks for a sample after each fixed number of reference cycles. With a
// frequency (PerfBitFreq), the kernel would vary the number, to take as many samples of a
// mostly idle CPU as of a busy one: they would stand for less and less time (perf_adjust_period
// in kernel/events/core.c). Excluding user code would also exclude the user code of guests.
func (s Sampling) completeCycles(attr *unix.PerfEventAttr, rate uint64) {
	attr.Type, attr.Config = unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_REF_CPU_CYCLES
	attr.Sample = max(1, rate/s.Frequency)
}

func openError(event Event, cpu int, err error) error {
	known := map[error]error{
		unix.EACCES:     ErrPermission,
		unix.EPERM:      ErrPermission,
		unix.ENOENT:     ErrUnsupported,
		unix.ENOSYS:     ErrUnsupported,
		unix.EOPNOTSUPP: ErrUnsupported,
		unix.EINVAL:     event.refused(), // everything else that the kernel checks is constant
	}[err]
	if known != nil {
		err = fmt.Errorf("%w: %w", known, err)
	}
	err = filesError(err)
	return fmt.Errorf("opening a perf event on %s: %w", nameOf(cpu), err)
}
