// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// durationEnv is how long TestSoak takes.
const durationEnv = "KERNELSYM_SOAK"

// TestSoak is `make soak` with modules, which only a virtual machine has to spare.
func TestSoak(t *testing.T) {
	kerneltest.NeedModules(t)
	o := options{collector: kerneltest.Built(t, kerneltest.Collector), duration: 40 * time.Second, modules: true,
		say: func(line string) { kerneltest.Figure("soak: %s", line) }}
	if text := os.Getenv(durationEnv); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		o.duration = d
	}
	require.NoError(t, run(t.Context(), o))
}
