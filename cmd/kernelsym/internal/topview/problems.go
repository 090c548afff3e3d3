// SPDX-License-Identifier: Apache-2.0

package topview

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
)

// Throttled returns the line that says how often the kernel stopped sampling.
func Throttled(times int) string {
	return fmt.Sprintf("The kernel paused sampling %s: shares are too small. Lower -F.", plural.Of(times, "time"))
}

// Missing returns the line that says why names are missing.
func Missing(err error) string {
	return "Names are missing: " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

var errPanic = errors.New("this is a bug of kernelsym, please report it")

// Recovered makes a panic an error, with the stack from the second line on: the terminal has
// to be restored before it is printed.
func Recovered(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic: %v\n%s", errPanic, r, debug.Stack())
		}
	}()
	return f()
}
