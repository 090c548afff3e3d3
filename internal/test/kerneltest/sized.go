// SPDX-License-Identifier: Apache-2.0

package kerneltest

import "testing"

// Sized returns a number for this machine, or a smaller one for a virtual machine, which is
// slow.
func Sized(here, inVM int) int {
	if InVM() {
		return inVM
	}
	return here
}

// Hertz returns the sampling frequency. It is lower in a virtual machine, whose kernel needs up to
// two milliseconds for a sample.
func Hertz(here int) int { return Sized(here, min(here, 97)) }

// SameInEachKernel skips a test in a virtual machine, which is slow, because the test does not
// depend on the kernel.
func SameInEachKernel(t testing.TB) {
	t.Helper()
	if InVM() {
		t.Skip("does not depend on the kernel: tested outside the virtual machine")
	}
}
