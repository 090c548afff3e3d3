// SPDX-License-Identifier: Apache-2.0

// Package plural formats a number of things.
package plural

import "fmt"

// Of returns a number of things, as "1 module" or "2 modules".
func Of(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
