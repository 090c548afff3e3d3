// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// NeedThreadEvents skips the test unless new threads, and only threads, can inherit perf events.
func NeedThreadEvents(t testing.TB) {
	t.Helper()
	NeedPerf(t)
	const inheritThread = unix.CBitFieldMaskBit35
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: unix.PERF_ATTR_SIZE_VER0,
		Bits: unix.PerfBitDisabled | unix.PerfBitInherit | inheritThread,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		_ = unix.Close(fd)
		return
	}
	if errors.Is(err, unix.EINVAL) && OlderThan(t, 5, 13) {
		t.Skip("events that only threads inherit need Linux 5.13: they are not tested")
	}
	t.Fatalf("an event that new threads inherit: %v", err)
}
