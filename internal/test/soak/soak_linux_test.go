// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// durationEnv is the environment variable with the duration of TestSoak.
const durationEnv = "KERNELSYM_SOAK"

// TestSoak is `make soak` with modules, which only a virtual machine can spare. Without a given
// duration, it goes on until it has checked something of each kind.
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
