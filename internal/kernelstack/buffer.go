// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// The sizes of the receiver's rings, in bytes.
const (
	DefaultBuffer       = 64 << 10
	DefaultSwitchBuffer = 256 << 10
	LeastSwitchBuffer   = 64 << 10 // below which too much would be lost, even on a machine with little to do
	SwitchBuffers       = 16 << 20 // of all CPUs: 50,000 switches, which take ten times as much memory when all are read at once
)

// TryRings opens rings of the default sizes, in the order of the receiver, and closes them. less wraps ErrRings if the rings for
// context switches are smaller than they were meant to be, and ErrNames if there are none for names. The error says why rings
// cannot be opened.
func TryRings(procfs, sysfs string) (less, err error) {
	const frequency = 1 // which any machine allows
	running := Options{Threads: Running{Event: EventClock, Frequency: frequency, Idle: true}, Buffer: DefaultBuffer}
	waiting := Options{
		Threads: Waiting{Scheduler: true}, Buffer: DefaultSwitchBuffer, Least: LeastSwitchBuffer, Buffers: SwitchBuffers,
	}
	for _, o := range []Options{running, waiting} {
		o.Procfs, o.Sysfs = procfs, sysfs
		methods, err := o.Threads.methods(&o, false)
		if err != nil {
			return nil, err
		}
		s := Sampler{Options: o}
		opened, err := s.open(methods)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.rings.Close() }()
		less = errors.Join(opened.nameless, s.smaller(opened.rings))
	}
	return less, nil
}

// ample is a size of rings that the number of CPUs makes no smaller. No limit of locked memory need be raised for it.
const ample = 256 << 10

// buffer returns the size of each CPU's ring, if there is memory for it.
func (o *Options) buffer() int {
	size := perfring.RingSize(o.Buffer)
	for o.Buffers > 0 && size/2 >= ample && size*numCPUs(o.Sysfs) > o.Buffers {
		size /= 2
	}
	return size
}

// numCPUs returns the number of CPUs that are online or, where sysfs is not mounted, that this process may use.
func numCPUs(sysfs string) int {
	online, err := perfring.OnlineCPUs(sysfs)
	if err != nil {
		return runtime.NumCPU()
	}
	return len(online)
}

// smaller returns an error that wraps ErrRings if there was no memory for rings of the size that they were meant to have. It
// says which limits the rings would have exceeded.
func (s *Sampler) smaller(rings *perfring.Reader) error {
	size, why := rings.BytesPerCPU()
	if why == nil {
		return nil
	}
	return fmt.Errorf("%w: each CPU's ring buffer has %d KiB, not %d KiB (%s): %w",
		ErrRings, size>>10, s.Options.buffer()>>10, lockLimits(s.Options.Procfs), why)
}

// lockLimits says how much memory may be locked, as far as that can be read.
func lockLimits(mount string) string {
	perCPU := "unknown"
	if text, err := os.ReadFile(filepath.Join(mount, "sys", "kernel", "perf_event_mlock_kb")); err == nil {
		perCPU = string(bytes.TrimSpace(text))
	}
	return fmt.Sprintf("kernel.perf_event_mlock_kb is %s, RLIMIT_MEMLOCK is %s", perCPU, limit(mount, "Max locked memory"))
}

// limit returns a soft limit of this process: a number, "unlimited", or "unknown".
func limit(mount, name string) string {
	if values := procfs.Limit(mount, name); values != nil {
		return values[0]
	}
	return "unknown"
}
