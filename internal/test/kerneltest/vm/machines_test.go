// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// follow simulates a machine that prints these lines. It returns the packages that the machine is
// given.
func follow(t *testing.T, q *queue, lines ...string) (given string, err error) {
	t.Helper()
	var in bytes.Buffer
	m := &machine{queue: q, in: &in, silent: time.Hour, watchdog: time.NewTimer(time.Hour)}
	m.follow(strings.NewReader(strings.Join(lines, "\r\n") + "\r\n"))
	m.watchdog.Stop()
	return in.String(), m.result()
}

// TestMachinesSharePackages verifies that each package is given to one machine, that the machine's
// output is passed on, and that a machine that ends early is an error.
func TestMachinesSharePackages(t *testing.T) {
	j := newJob("6.1", nil, "", []string{"a", "b", "c"}, options{boots: 1})
	q := j.boots[0]
	given, err := follow(t, q, markNext, "ok a", markNext, "FAIL b")
	assert.Equal(t, "a\nb\n", given)
	require.ErrorContains(t, err, "FAIL b")
	assert.Equal(t, "ok a\nFAIL b\n", j.printed.String())
	require.ErrorContains(t, j.result(), "not tested: c")

	given, err = follow(t, q, markNext, "ok c", markNext, markDone+"ok")
	assert.Equal(t, "c\n\n", given)
	require.NoError(t, err)
	require.NoError(t, j.result())

	_, err = follow(t, q, markNext, markDone+"failed")
	require.ErrorIs(t, err, errTests)
	_, err = follow(t, q, "a panic")
	require.ErrorIs(t, err, errNotBooted)
}

// TestComparedBootsShareNothing verifies that each of the boots has all packages.
func TestComparedBootsShareNothing(t *testing.T) {
	j := newJob("6.1", nil, "", []string{"a", "b"}, options{boots: 2})
	require.Len(t, j.boots, 2)
	for _, q := range j.boots {
		assert.Equal(t, 1, q.machines)
		assert.Equal(t, []string{"a", "b"}, q.todo)
	}
}
