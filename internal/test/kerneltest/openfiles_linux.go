// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"os"
	"testing"
)

// OpenFiles returns how many files this process has open, including the list of them.
func OpenFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
