// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capUserTime is cap_user_time of struct perf_event_mmap_page: the rate of the TSC is known and
// does not change.
const capUserTime = 1 << 3

// tscRate returns the number of cycles that the TSC of x86 counts per second. The kernel
// converts cycles to nanoseconds by the same rate: cycles * time_mult >> time_shift (struct
// perf_event_mmap_page of include/uapi/linux/perf_event.h). These numbers are in the page of
// any event; tscRate uses one that never happens. The error wraps ErrUnsupported if the rate is
// not known.
func tscRate(cpu int) (rate uint64, err error) {
	if runtime.GOARCH != "amd64" {
		return 0, fmt.Errorf("%w: only x86-64 counts reference cycles at a known rate", ErrUnsupported)
	}
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return 0, openError(Sampling{}, cpu, err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	mapping, page, err := mapRing(fd, cpu, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unix.Munmap(mapping)) }()
	if page.Capabilities&capUserTime == 0 || page.Time_mult == 0 {
		return 0, fmt.Errorf("%w: the TSC frequency is unknown", ErrUnsupported)
	}
	return rateOf(page.Time_mult, page.Time_shift), nil
}

// rateOf returns the cycles per second if nanoseconds are cycles * mult >> shift.
func rateOf(mult uint32, shift uint16) uint64 { return uint64(1e9) << shift / uint64(mult) }
