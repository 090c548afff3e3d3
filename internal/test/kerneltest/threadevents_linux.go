// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"errors"
	"fmt"
	"os"
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
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	var major, minor int
	_, _ = fmt.Sscanf(string(release), "%d.%d", &major, &minor)
	if errors.Is(err, unix.EINVAL) && (major < 5 || major == 5 && minor < 13) {
		t.Skip("events that only threads inherit need Linux 5.13: they are not tested")
	}
	t.Fatalf("an event that new threads inherit: %v", err)
}
