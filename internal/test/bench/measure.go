// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"slices"
	"time"
)

// A task is a piece of work to measure. What prepare does is not measured.
type task struct {
	prepare func()
	run     func()
}

// medians measures tasks in turn, so that all run under the same conditions, and returns the median
// for each, measured with clock. In a round, a task runs several times, each time right after its
// preparation: freshly prepared data is in the caches, as in a pipeline, and garbage is collected
// as always.
func medians(rounds int, clock func() time.Duration, tasks ...task) []time.Duration {
	measured := make([][]time.Duration, len(tasks))
	for round := range rounds + 1 {
		for i, t := range tasks {
			runtime.GC() // collects what other tasks left
			total := time.Duration(0)
			times := timesARound
			if round == 0 { // to warm up
				times = 1
			}
			for range times {
				if t.prepare != nil {
					t.prepare()
				}
				start := clock()
				t.run()
				total += clock() - start
			}
			if round > 0 {
				measured[i] = append(measured[i], total)
			}
		}
	}
	all := make([]time.Duration, len(tasks))
	for i, m := range measured {
		slices.Sort(m)
		all[i] = m[len(m)/2]
	}
	return all
}

// timesARound is how often a task runs in a round.
const timesARound = 5

// longest is the maximum time of a measurement of something that goes on all the time.
const longest = 20 * time.Second

// duration returns how long such a measurement takes: shorter for few rounds.
func duration(rounds int) time.Duration {
	return min(longest, time.Duration(rounds)*5*time.Second)
}

var begin = time.Now()

// wall returns the elapsed time.
func wall() time.Duration { return time.Since(begin) }

// ratio returns how many times longer a takes than b.
func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// repeat returns a function that calls f n times.
func repeat(n int, f func()) func() {
	return func() {
		for range n {
			f()
		}
	}
}
