// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
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

// TestAnnotateWithoutTheKernel verifies that text is copied to its end if the kernel cannot be read, that one warning says why
// addresses get no names, and that this is a failure unless packs alone suffice.
func TestAnnotateWithoutTheKernel(t *testing.T) {
	kerneltest.Unprivileged(t, testAnnotateWithoutTheKernel) // root could list BPF programs
}

func testAnnotateWithoutTheKernel(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	const before, after = "RIP: 0010:main_loop+0x4/0x40", "\nRBX: ffff888100a3c000 RIP: ffffffff81000054\nRBX: ffff888100a3c000\nend"
	for _, tt := range []struct {
		args  []string
		added string
		fails bool
	}{
		{nil, "", true},
		{[]string{"--pack", dir, "--build-id", kernelID}, atStart, false},
		{[]string{"--pack", dir, "--build-id", kernelID, "--locate"}, atStart, true},
	} {
		out, errs, err := execute(t, before+after, append([]string{"annotate", "--procfs", empty, "--sysfs", empty}, tt.args...)...)
		assert.Equal(t, before+tt.added+after, out)
		assert.Equal(t, 1, strings.Count(errs, "addresses get no names: "), errs)
		assert.NotContains(t, errs, "Error:", "it was already printed")
		if tt.fails {
			assert.ErrorContains(t, err, "addresses get no names: ", tt.args)
		} else {
			assert.NoError(t, err)
		}
	}
}
