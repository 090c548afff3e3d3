// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"os"
	"testing"
	"time"
)

// SmallFileEnv is the environment variable of a virtual machine with the result of TimeSmallFile on
// the machine that runs it.
const SmallFileEnv = "KERNELSYM_VM_SMALL_FILE"

// TimeSmallFile returns how long it takes to open and read a small file of the kernel: the best of
// many times.
func TimeSmallFile() (best time.Duration, err error) {
	const rounds, files = 20, 50
	for range rounds {
		start := time.Now()
		for range files {
			if _, err := os.ReadFile("/proc/self/stat"); err != nil {
				return 0, err
			}
		}
		if d := time.Since(start) / files; best == 0 || d < best {
			best = d
		}
	}
	return best, nil
}

// Slowness returns how many times as long it takes to read a small file of the kernel in this
// virtual machine as on the machine that runs it.
func Slowness(t testing.TB) float64 {
	t.Helper()
	outside, err := time.ParseDuration(os.Getenv(SmallFileEnv))
	if err != nil {
		t.Fatalf("%s: %v", SmallFileEnv, err)
	}
	inside, err := TimeSmallFile()
	if err != nil {
		t.Fatal(err)
	}
	return float64(inside) / float64(outside)
}
