// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestAnnotateFollowsTheKernel loads a program while the command runs.
func TestAnnotateFollowsTheKernel(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedBPF(t)
	kerneltest.NeedPerf(t)
	in, write := io.Pipe()
	read, out := io.Pipe()
	cmd := newCommand()
	cmd.SetArgs([]string{"annotate"})
	cmd.SetIn(in)
	cmd.SetOut(out)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(t.Context()) }()
	lines := bufio.NewReader(read)
	ask := func(line string) string {
		_, err := fmt.Fprintln(write, line)
		require.NoError(t, err)
		got, err := lines.ReadString('\n')
		require.NoError(t, err)
		return got
	}
	assert.Equal(t, "ready\n", ask("ready"))
	// An address that had other code since the start gets no name, nor does any address while
	// records may be lost: other tests load programs at the same time.
	named := false
	deadline := time.Now().Add(5 * time.Minute)
	for n := int32(0); !named && time.Now().Before(deadline); n++ {
		prog := kerneltest.LoadBPF(t, kerneltest.SmallProgram("annotated", n, 1))
		at := fmt.Sprintf("at %x", kerneltest.CodeOf(t, prog)[0].Start)
		if got := ask(at); got != at+"\n" {
			assert.Regexp(t, "^"+at+` bpf_prog_[0-9a-f]{16}_annotated\+0x0 \[bpf\]`, got)
			named = true
		} else {
			time.Sleep(100 * time.Millisecond)
		}
	}
	assert.True(t, named)
	require.NoError(t, write.Close())
	require.NoError(t, <-ended)
}
