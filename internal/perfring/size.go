// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"math/bits"
	"os"
)

// RingSize returns the size of a ring that holds that many bytes: the smallest power of two of pages.
func RingSize(bytes int) int {
	pages := max(1, (bytes+os.Getpagesize()-1)/os.Getpagesize())
	return os.Getpagesize() << bits.Len(uint(pages-1))
}
