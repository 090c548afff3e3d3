// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// durationEnv is how long TestSoak takes.
const durationEnv = "KERNELSYM_SOAK"

// TestSoak is `make soak` with modules, which only a virtual machine has to spare. Unless it is
// told how long to take, it goes on for as long as it needs to check something of each kind.
func TestSoak(t *testing.T) {
	kerneltest.NeedModules(t)
	o := options{collector: kerneltest.Built(t, kerneltest.Collector), modules: true,
		say: func(line string) { kerneltest.Figure("soak: %s", line) }}
	if text := os.Getenv(durationEnv); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		o.duration, o.idle = d, true
	}
	require.NoError(t, run(t.Context(), o))
}
