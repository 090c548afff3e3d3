// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"testing"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"
)

// NeedBPF skips the test unless this process may load BPF programs and see their addresses. It
// lifts the limit on their memory, if it can.
func NeedBPF(t testing.TB) {
	t.Helper()
	needLinux(t)
	switch {
	case !Has(t, capability.CAP_SYS_ADMIN) && (!Has(t, capability.CAP_BPF) || !Has(t, capability.CAP_PERFMON)):
		t.Skip("no CAP_BPF and CAP_PERFMON (not root?): BPF programs are not tested")
	case sysctl(t, "net/core/bpf_jit_enable") == 0:
		t.Skip("net.core.bpf_jit_enable is 0: compiled BPF programs are not tested")
	}
	NeedPerf(t)
	NeedAddresses(t)
	// Before Linux 5.11, programs count as locked memory, as rings do.
	if !Has(t, capability.CAP_SYS_RESOURCE) {
		return
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
		t.Fatalf("raising the limit of locked memory: %v", err)
	}
}
