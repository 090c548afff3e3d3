// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/kernelsym/kernelsym/internal/test/kernelload"
)

// Busy keeps the kernel busy on all CPUs until the test ends.
func Busy(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() {
		if err := kernelload.Run(ctx, Sized(runtime.NumCPU(), 1)); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); load.Wait() })
}
