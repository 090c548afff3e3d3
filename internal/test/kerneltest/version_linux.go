// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// OlderThan reports whether the running kernel is older than a version.
func OlderThan(t testing.TB, major, minor int) bool {
	t.Helper()
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		t.Fatal(err)
	}
	var is [2]int
	release := unix.ByteSliceToString(uname.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &is[0], &is[1]); err != nil {
		t.Fatalf("%s: %v", release, err)
	}
	return is[0] < major || is[0] == major && is[1] < minor
}
