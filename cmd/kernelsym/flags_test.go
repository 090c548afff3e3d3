// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestWrongValuesInWords: an error about a flag says what the flag takes, not which function of the library failed.
func TestWrongValuesInWords(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	for args, want := range map[string]string{
		"top --duration 10":            `invalid argument "10" for "--duration" flag: it takes a time with a unit, such as 10s`,
		"top --duration ten":           "it takes a time with a unit, such as 10s",
		"top --duration 10y":           "it takes a time with a unit, such as 10s",
		"top -p x":                     `invalid argument "x" for "-p, --pid" flag: it takes a whole number`,
		"top -n 99999999999999999999":  "it takes a whole number",
		"top -d x":                     "it takes a number, such as 2 or 0.5",
		"top --bpf=x":                  "it takes true or false",
		"list --output xml":            "it takes text or json",
		"list --procfs /no/such/place": "there is no such directory",
	} {
		_, errs, err := execute(t, "", strings.Fields(args)...)
		require.ErrorIs(t, err, errUsage, args)
		assert.Contains(t, errs, want, args)
		assert.NotContains(t, errs, "strconv", args)
	}
}
