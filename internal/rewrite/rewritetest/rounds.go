// SPDX-License-Identifier: Apache-2.0

package rewritetest

import "testing"

// Rounds returns how many inputs a test tries: n, or a tenth of that with -short, which is meant
// for the race detector. The race detector makes these tests five times slower, and they have only
// one goroutine.
func Rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}
