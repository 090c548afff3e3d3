// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// maxMemory is how much memory profiles can take, unless GOMEMLIMIT is set: a file of a few kilobytes can stand for
// gigabytes.
const maxMemory = 1 << 30

// withinMemory calls do. It returns an error as soon as the live objects in memory take more than the limit, or ctx is done:
// do, which can be in the middle of a message, then goes on until the process ends, and what it works on must not be used.
func withinMemory(ctx context.Context, do func() error) error {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		limit = maxMemory
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit)) // garbage does not come on top
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	check := time.NewTicker(10 * time.Millisecond)
	defer check.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-check.C:
			if liveMemory() > uint64(limit) {
				return fmt.Errorf("the profiles take more than %d MiB of memory: read fewer files at a time, or set "+
					"GOMEMLIMIT to a higher limit, such as %dMiB", limit>>20, 4*limit>>20)
			}
		}
	}
}

// liveMemory returns the bytes of the objects that the last garbage collection kept.
func liveMemory() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
