// SPDX-License-Identifier: Apache-2.0

// Package kerneltest helps tests that need a real kernel. It reports what a test lacks to run, and
// only if that is really so.
package kerneltest

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/capability"
)

// NeedAddresses skips the test unless the kernel shows this process the addresses of its symbols.
// It fails the test if the kernel hides them but should not.
func NeedAddresses(t testing.TB) {
	t.Helper()
	needLinux(t)
	start := make([]byte, 1<<12)
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Skipf("no list of symbols (%v): names from the running kernel are not tested", err)
	}
	defer f.Close()
	n, err := f.Read(start)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(start[:n])) {
		if !strings.HasPrefix(line, "0000000000000000") {
			return
		}
	}
	switch {
	case sysctl(t, "kernel/kptr_restrict") >= 2:
		t.Skip("kernel.kptr_restrict is 2: names from the running kernel are not tested")
	case !Has(t, capability.CAP_SYSLOG):
		t.Skip("no CAP_SYSLOG (not root?): names from the running kernel are not tested")
	}
	t.Fatal("the kernel hides its addresses from a process with CAP_SYSLOG")
}

// NeedPerf skips the test unless this process may sample the kernel on all CPUs.
func NeedPerf(t testing.TB) {
	t.Helper()
	needLinux(t)
	if _, err := os.Stat("/proc/sys/kernel/perf_event_paranoid"); err != nil {
		t.Skip("the kernel has no perf events: sampling is not tested")
	}
	if !Has(t, capability.CAP_PERFMON) && !Has(t, capability.CAP_SYS_ADMIN) &&
		sysctl(t, "kernel/perf_event_paranoid") > 0 {
		t.Skip("no CAP_PERFMON (not root?): sampling is not tested")
	}
}

// NeedRestrictedPerf skips the test if the kernel lets every user sample it, and then also shows
// the addresses of its symbols to every user.
func NeedRestrictedPerf(t testing.TB) {
	t.Helper()
	needLinux(t)
	if _, err := os.Stat("/proc/sys/kernel/perf_event_paranoid"); err != nil {
		t.Skip("the kernel has no perf events: that it refuses them is not tested")
	}
	if sysctl(t, "kernel/perf_event_paranoid") < 2 {
		t.Skip("kernel.perf_event_paranoid is below 2: that perf events are refused is not tested")
	}
}

// NeedUevents skips the test unless the kernel can be made to send an event about
// the loopback interface.
func NeedUevents(t testing.TB) {
	t.Helper()
	needLinux(t)
	if _, err := os.Stat("/sys/class/net/lo/uevent"); err != nil {
		t.Skip("no loopback interface in sysfs: receiving events of the kernel is not tested")
	}
}

// InVM reports whether this is a virtual machine of `make test-vm`, which is slow.
func InVM() bool { return os.Getenv("KERNELSYM_VM") != "" }

// Has reports whether the process has a capability that the kernel itself respects. Capabilities of
// root in another user namespace do not count.
func Has(t testing.TB, c capability.Cap) bool {
	t.Helper()
	needLinux(t)
	if !inFirstUserNamespace() {
		return false
	}
	caps, err := capability.NewPid2(0)
	if err == nil {
		err = caps.Load()
	}
	if err != nil {
		t.Fatalf("reading the capabilities of this process: %v", err)
	}
	return caps.Get(capability.EFFECTIVE, c)
}

func inFirstUserNamespace() bool {
	users, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || strings.Join(strings.Fields(string(users)), " ") == "0 0 4294967295"
}

func sysctl(t testing.TB, name string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func needLinux(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("not Linux: nothing of the kernel is tested")
	}
}
