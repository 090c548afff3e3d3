// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"slices"
	"time"
)

// A task is a piece of work to be measured. What prepare does is not.
type task struct {
	prepare func()
	run     func()
}

// medians measures tasks in turn, so that all of them see the same weather, and
// returns the median of what clock says of each. In a round, a task is done
// several times, each time right after it was prepared: what was just prepared
// is in the caches, as it is in a pipeline, and garbage is collected as always.
func medians(rounds int, clock func() time.Duration, tasks ...task) []time.Duration {
	measured := make([][]time.Duration, len(tasks))
	for round := range rounds + 1 {
		for i, t := range tasks {
			runtime.GC() // of what others left
			total := time.Duration(0)
			times := timesARound
			if round == 0 { // it warms up
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

// timesARound is how often a task is done in a round.
const timesARound = 5

// longest is for how long, at most, something is measured that goes on all the time.
const longest = 20 * time.Second

// duration returns for how long it is measured: shorter for few rounds.
func duration(rounds int) time.Duration {
	return min(longest, time.Duration(rounds)*5*time.Second)
}

var begin = time.Now()

// wall is the time that passed.
func wall() time.Duration { return time.Since(begin) }

// ratio returns how many times longer a takes than b.
func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// repeat makes work of n times f.
func repeat(n int, f func()) func() {
	return func() {
		for range n {
			f()
		}
	}
}
