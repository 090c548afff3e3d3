// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// Options say what to record and how.
type Options struct {
	// Event is what is recorded. It must be set.
	Event Event

	// BytesPerCPU is the size of each ring, without the page of metadata. It is
	// rounded up to a power of two of pages.
	BytesPerCPU int

	// Window is for how long records are held back to bring those of all CPUs
	// into order, 0 or more. What made another event possible comes before it with
	// any window.
	Window time.Duration

	// Delay is how long Wait waits for more records of [Symbols] after the first, so that
	// those of some dozen milliseconds wake the process once. It is less while a ring
	// fills fast.
	Delay time.Duration

	// CPUs are the numbers of those to record on; none for all.
	CPUs []int

	// SysFS is where /sys is mounted. Where it is not, CPUs are found by trying.
	SysFS string
}

// wants reports whether a CPU is to be recorded on.
func (o *Options) wants(cpu int) bool { return len(o.CPUs) == 0 || slices.Contains(o.CPUs, cpu) }

// SymbolOptions returns the options to record [Symbols] with, where sysfs is
// mounted at a place. A ring of 64 KiB holds what a CPU does in loading some
// hundred BPF programs, as many as can come in the delay; with its page of metadata that
// is 68 KiB for each CPU (with pages of 4 KiB), 17 MiB for 256 of them.
func SymbolOptions(sysfs string) Options {
	return Options{
		Event: Symbols{}, BytesPerCPU: 64 << 10, SysFS: sysfs,
		Window: 500 * time.Microsecond, Delay: 80 * time.Millisecond,
	}
}

// An Event is what is recorded, [Sampling] or [Symbols].
type Event interface {
	// Clock returns the clock that the times of the records are of.
	Clock() Clock

	// refused returns what it means that the kernel refuses the event as invalid.
	refused() error
}

// Sampling records what the kernel and its guests do: TypeSample, TypeThrottle, and for the
// names of threads TypeComm, TypeFork and TypeExit. Wait waits until a ring is half
// full.
type Sampling struct {
	// Cycles samples with the CPU's counter of reference cycles, not with a timer: also where
	// interrupts are off. It counts at the rate of the TSC, whatever the CPU's clock is, while
	// the CPU is not halted. Samples of user code come without a stack.
	Cycles bool

	// Frequency is the number of samples a second and CPU, in equal steps of time. The sysctl
	// kernel.perf_event_max_sample_rate bounds that of a timer.
	Frequency uint64

	// User has a timer also sample user code, without a stack. Without it, a timer leaves
	// out samples outside the kernel and guests.
	User bool

	// Idle also samples the idle task.
	Idle bool

	// MaxStack is the number of addresses of a stack that are kept, 0 for as
	// many as the sysctl kernel.perf_event_max_stack allows.
	MaxStack uint16
}

// Period returns the time that a sample stands for.
func (s Sampling) Period() time.Duration { return time.Duration(uint64(time.Second) / s.Frequency) }

// Clock returns Monotonic. The cycle counter interrupts where no other clock but
// CLOCK_MONOTONIC_RAW can be read (perf_event_set_clock in kernel/events/core.c).
func (Sampling) Clock() Clock { return Monotonic }

func (Sampling) refused() error { return ErrRate }

// Symbols records which code the kernel makes and frees as it runs, and what it
// calls it: TypeKsymbol and TypeBPFEvent. It needs Linux 5.1. Wait waits for any of
// them.
type Symbols struct{}

// Clock returns Boottime.
func (Symbols) Clock() Clock { return Boottime }

func (Symbols) refused() error {
	return fmt.Errorf("%w: symbol records need Linux 5.1", ErrUnsupported)
}

// Errors of Open that an operator can do something about.
var (
	ErrPermission = errors.New("not permitted to use perf events on all CPUs: " +
		"grant CAP_PERFMON, or CAP_SYS_ADMIN if the sysctl kernel.perf_event_paranoid is above 2, or set that to 0")
	ErrUnsupported = errors.New("this kernel or machine does not support the perf event")
	ErrRate        = errors.New("the kernel refuses the event: lower the sample frequency to the sysctl kernel.perf_event_max_sample_rate or below")
	ErrMemory      = errors.New("not permitted to lock memory for the ring buffers: " +
		"grant CAP_IPC_LOCK, or raise RLIMIT_MEMLOCK or the sysctl kernel.perf_event_mlock_kb")
	ErrFiles  = errors.New("too many open files: a ring buffer needs one per CPU; raise RLIMIT_NOFILE")
	ErrClocks = errors.New("the clocks of this time namespace are not the kernel's, which stamps the records: run outside of time namespaces")
)

// filesError wraps EMFILE in ErrFiles.
func filesError(err error) error {
	if errors.Is(err, syscall.EMFILE) {
		return fmt.Errorf("%w: %w", ErrFiles, err)
	}
	return err
}
