// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// IsWaits reports whether values of a type are times of waits, in nanoseconds.
func IsWaits(t rewrite.ValueType) bool {
	return t == rewrite.ValueType{Name: "off_cpu", Unit: "nanoseconds"}
}

// Amount returns a value of a type as text, with its unit.
func Amount(t rewrite.ValueType, n int64) string {
	switch t.Unit {
	case "nanoseconds":
		return time.Duration(n).String()
	case "count", "":
		kind := t.Name
		if n == 1 {
			kind = strings.TrimSuffix(kind, "s") // one sample
		}
		return strings.TrimSpace(fmt.Sprint(n, " ", kind))
	default:
		return fmt.Sprint(n, " ", t.Unit)
	}
}

// AtWait returns the stack of a wait, leaf first, from the function on that waits: the first that is not the scheduler's. It
// returns all of the stack if there is none. Profiles can have the functions of the scheduler, because the receiver was told to
// keep them or could not tell them.
func AtWait(n *rewrite.Named, stack []rewrite.StackFrame) []rewrite.StackFrame {
	first := slices.IndexFunc(stack, func(f rewrite.StackFrame) bool { return !isScheduler(n.Code(f.Code)) })
	return stack[max(0, first):]
}

func isScheduler(c rewrite.Code) bool {
	return c.IsKernel && len(c.Lines) > 0 && kernelstack.IsScheduler(c.Lines[len(c.Lines)-1].Function)
}
