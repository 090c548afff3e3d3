// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// IsGuest reports whether a code stands for the time that a CPU spent in a guest, as the receiver "kernelstack" sends it.
func IsGuest(code *rewrite.Code) bool {
	return code.IsKernel && code.Address == 0 && len(code.Lines) > 0 && code.Lines[0].Function == kernelstack.GuestName
}
