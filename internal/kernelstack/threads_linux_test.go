// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// TestWorkersOfTheRunningKernel verifies that the name of a worker of the running kernel ends with its id.
func TestWorkersOfTheRunningKernel(t *testing.T) {
	if err := procfs.CheckInitialPIDNamespace("/proc"); err != nil {
		t.Skipf("%v: the names of workers are not tested", err)
	}
	threads := newThreads("/proc")
	threads.readAll()
	workers := 0
	for tid := range threads.names {
		name := threads.name(tid, perfring.Monotonic.Now())
		if strings.HasPrefix(name, "kworker/") && !strings.HasPrefix(name, "kworker/R-") {
			assert.Regexp(t, `^kworker/(u?\d+:\d+H?|dying)$`, name)
			workers++
		}
	}
	assert.Positive(t, workers)
}

// TestProcessWithTheNameOfAWorker verifies that a thread of a process keeps the name of a worker that it gave itself.
func TestProcessWithTheNameOfAWorker(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and its name with it
	const name = "kworker/u9:9-me"
	require.NoError(t, os.WriteFile(filepath.Join("/proc", "thread-self", "comm"), []byte(name), 0o600))
	own := newThreads("/proc").read(uint32(unix.Gettid()))
	assert.Equal(t, name, own.at(perfring.Monotonic.Now()))
}
