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
	// Event selects the records. It must be set.
	Event Event

	// BytesPerCPU is the size of each ring, without the page of metadata. It is
	// rounded up to a power of two of pages.
	BytesPerCPU int

	// LeastPerCPU is the smallest size that will do, 0 for BytesPerCPU. If there is no memory for the rings, they are halved
	// down to it.
	LeastPerCPU int

	// Names also records what threads and cgroups are called. Their clock must be the event's.
	Names Names

	// Window is how long records are held back so that the records of all CPUs can be sorted.
	// It may be 0: with any window, an event comes after the event that made it possible.
	Window time.Duration

	// Delay is how long Wait waits for more records of [Symbols] after the first, so that the
	// records of a few dozen milliseconds wake the process once. Wait waits for less time while
	// a ring fills fast.
	Delay time.Duration

	// CPUs are the numbers of the CPUs to record on; empty for all.
	CPUs []int

	// SysFS is where /sys is mounted. If it is not mounted, CPUs are found by trying.
	SysFS string
}

// wants reports whether to record on a CPU.
func (o *Options) wants(cpu int) bool { return len(o.CPUs) == 0 || slices.Contains(o.CPUs, cpu) }

// SymbolOptions returns the options for recording [Symbols]. sysfs is the path where sysfs is
// mounted. A ring of 64 KiB holds the records of a CPU that loads a few hundred BPF programs,
// as many as it can load during the delay. With its page of metadata a ring takes 68 KiB per
// CPU (with pages of 4 KiB), or 17 MiB for 256 CPUs.
func SymbolOptions(sysfs string) Options {
	return Options{
		Event: Symbols{}, BytesPerCPU: 64 << 10, SysFS: sysfs,
		Window: 500 * time.Microsecond, Delay: 80 * time.Millisecond,
	}
}

// An Event selects the records of a ring: [Sampling], [Switches], [Symbols] or [Names].
type Event interface {
	// Clock returns the clock of the records' times.
	Clock() Clock

	// refused returns the error for an event that the kernel refuses as invalid.
	refused() error
}

// Sampling samples the kernel and its guests. It records TypeSample and TypeThrottle. Wait waits
// until a ring is half full.
type Sampling struct {
	// Cycles samples by the CPU's counter of reference cycles instead of a timer, which works
	// even while interrupts are off. It counts at the rate of the TSC, whatever the CPU's clock
	// rate, while the CPU is not halted. Samples of user code have no stack.
	Cycles bool

	// Frequency is the number of samples per second and CPU, at equal intervals. The sysctl
	// kernel.perf_event_max_sample_rate bounds the frequency of a timer.
	Frequency uint64

	// User makes a timer also sample user code, without a stack. If it is false, a timer
	// samples only the kernel and guests.
	User bool

	// Idle also samples the idle task.
	Idle bool

	// Cgroups also records the cgroup of each sample. It needs Linux 5.7: see CheckCgroups.
	Cgroups bool
}

// Period returns the time that a sample stands for.
func (s Sampling) Period() time.Duration { return time.Duration(uint64(time.Second) / s.Frequency) }

// Clock returns Monotonic. The cycle counter interrupts in places where the only other clock
// that can be read is CLOCK_MONOTONIC_RAW (perf_event_set_clock in kernel/events/core.c).
func (Sampling) Clock() Clock { return Monotonic }

func (Sampling) refused() error { return ErrRate }

// Switches records each switch from one thread to another: a TypeSample with the stack of the thread that leaves the CPU,
// and right after it in the same ring, a TypeSwitch of this thread and one of the thread that follows. The idle task of a
// CPU is a thread, too. It also records TypeFork and TypeExit, of which there are fewer than switches. Nothing throttles it:
// a switch takes about 300 bytes of a ring. Wait waits until a ring is half full.
type Switches struct {
	Cgroups bool // as in [Sampling]

	// Tasks lists the threads to record, as they are at the time of the call; nil records all threads. Events are opened for
	// these threads alone, one on each CPU, and the events of a CPU share its ring. A thread has no records after its TypeExit,
	// so its last switch and its waits while it ends are missing. Tasks is called again after the events of a CPU were opened,
	// and whenever rings are opened. Its error should wrap ErrTasks.
	Tasks func() ([]Task, error)
}

// A Task is a thread whose switches are recorded.
type Task struct {
	TID uint32

	// New also records the threads that this one makes in its process, and their own new threads. It needs Linux 5.13.
	New bool
}

// Clock returns Monotonic.
func (Switches) Clock() Clock { return Monotonic }

func (Switches) refused() error { return ErrUnsupported }

// Names records what threads and cgroups are called: TypeComm, TypeFork and TypeExit and, with Cgroups, TypeCgroup. Their
// records have no CPU. Wait does not wait for them. Of a ring, its size is parsed at once and in each refillTime; the rest
// is lost.
type Names struct {
	// BytesPerCPU is the size of each ring, as in [Options]. If it is 0, nothing is recorded.
	BytesPerCPU int

	Cgroups bool // also TypeCgroup for each new cgroup, as in [Sampling]
}

// Clock returns Monotonic.
func (Names) Clock() Clock { return Monotonic }

func (Names) refused() error { return ErrUnsupported }

// Symbols records the code that the kernel generates and frees at run time, and its names:
// TypeKsymbol and TypeBPFEvent. It needs Linux 5.1. Wait waits for any of them.
type Symbols struct{}

// Clock returns Boottime.
func (Symbols) Clock() Clock { return Boottime }

func (Symbols) refused() error {
	return fmt.Errorf("%w: symbol records need Linux 5.1", ErrUnsupported)
}

// Errors of Open that an operator can fix.
var (
	ErrPermission = errors.New("not permitted to use perf events on all CPUs: " +
		"grant CAP_PERFMON, or CAP_SYS_ADMIN if the sysctl kernel.perf_event_paranoid is above 2, or set that to 0")
	ErrUnsupported = errors.New("this kernel or machine does not support the perf event")
	ErrRate        = errors.New("the kernel refuses the event: lower the sample frequency to the sysctl kernel.perf_event_max_sample_rate or below")
	ErrMemory      = errors.New("not permitted to lock memory for the ring buffers: " +
		"grant CAP_IPC_LOCK, or raise RLIMIT_MEMLOCK or the sysctl kernel.perf_event_mlock_kb")
	ErrTasks  = errors.New("events of single threads cannot be opened")
	ErrFiles  = errors.New("too many open files: a ring buffer needs one per CPU; raise RLIMIT_NOFILE")
	ErrClocks = errors.New("the clocks of this time namespace are not the kernel's, which stamps the records: run outside of time namespaces")
)

// LacksMemory reports whether an error of Open says that there is no memory for the rings, or that they may not lock it.
// There may be enough for smaller or fewer rings.
func LacksMemory(err error) bool { return errors.Is(err, ErrMemory) || errors.Is(err, syscall.ENOMEM) }

// filesError wraps EMFILE in ErrFiles.
func filesError(err error) error {
	if errors.Is(err, syscall.EMFILE) {
		return fmt.Errorf("%w: %w", ErrFiles, err)
	}
	return err
}
