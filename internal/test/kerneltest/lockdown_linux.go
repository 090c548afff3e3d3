// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Lockdown returns the current mode of the kernel's lockdown: "none", "integrity" or
// "confidentiality" (security/lockdown/lockdown.c). It also returns "none" if the kernel does not
// say. It fails the test if a virtual machine was booted with another mode.
func Lockdown(t testing.TB) string {
	t.Helper()
	mode := "none"
	if list, err := os.ReadFile("/sys/kernel/security/lockdown"); err == nil {
		// The current mode is in brackets, as in "none [integrity] confidentiality".
		_, rest, _ := strings.Cut(string(list), "[")
		mode, _, _ = strings.Cut(rest, "]")
	}
	commandLine, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(commandLine))
	for _, booted := range []string{"integrity", "confidentiality"} {
		if InVM() && slices.Contains(fields, "lockdown="+booted) && mode != booted {
			t.Fatalf("booted with lockdown=%s, the kernel's lockdown is %q", booted, mode)
		}
	}
	return mode
}

// NeedLockdown skips the test unless the kernel is locked down. It returns the mode.
func NeedLockdown(t testing.TB) string {
	t.Helper()
	mode := Lockdown(t)
	if mode == "none" {
		t.Skip("the kernel is not locked down: what a locked-down kernel refuses is not tested; `make test-lockdown` does")
	}
	return mode
}
