package main

import (
	"bufio"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// TestAnnotateFollowsTheKernel has a program loaded while the command runs.
func TestAnnotateFollowsTheKernel(t *testing.T) {
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
	// Where other code was since the start nothing is named: others load programs at the same time.
	named := false
	for n := int32(0); n < 100 && !named; n++ {
		prog := kerneltest.LoadBPF(t, kerneltest.SmallProgram("annotated", n, 1))
		at := fmt.Sprintf("at %x", kerneltest.CodeOf(t, prog)[0].Start)
		if got := ask(at); got != at+"\n" {
			assert.Regexp(t, "^"+at+` bpf_prog_[0-9a-f]{16}_annotated\+0x0 \[bpf\]`, got)
			named = true
		}
	}
	assert.True(t, named)
	require.NoError(t, write.Close())
	require.NoError(t, <-ended)
}
