// SPDX-License-Identifier: Apache-2.0

package topview

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
)

// Throttled returns the line about the number of times that the kernel stopped sampling.
func Throttled(times int) string {
	return fmt.Sprintf("The kernel paused sampling %s: shares are too small. Lower -F.", plural.Of(times, "time"))
}

// Missing returns the line about missing names and their cause.
func Missing(err error) string {
	return "Names are missing: " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

var errPanic = errors.New("this is a bug of kernelsym, please report it")

// Recovered turns a panic into an error, with the stack from the second line on. The terminal must
// be restored before the error is printed.
func Recovered(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic: %v\n%s", errPanic, r, debug.Stack())
		}
	}()
	return f()
}
