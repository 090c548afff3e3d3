// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestLocatedByTheTool verifies that the commands name the core kernel although the running kernel hides its symbols from
// them, and print no address of it but that of the question.
func TestLocatedByTheTool(t *testing.T) {
	kerneltest.NeedAddresses(t)
	kerneltest.NeedPerf(t)
	kerneltest.Busy(t)
	dir := t.TempDir()
	_, errs, err := execute(t, "", "pack", "--running", "-d", dir)
	require.NoError(t, err, errs)
	var read struct{ Address, End string }
	out, errs, err := execute(t, "", "lookup", "-o", "json", "vfs_read")
	require.NoError(t, err, errs)
	require.NoError(t, json.Unmarshal([]byte(out), &read))
	address := strings.TrimPrefix(read.Address, "0x")
	start, err := strconv.ParseUint(address, 16, 64)
	require.NoError(t, err)
	run := func(stdin string, args ...string) (out, errs string) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), toolEnv+"="+strings.Join(append(args, "--locate", "--pack", dir), " "))
		cmd.Stdin = strings.NewReader(stdin)
		var o, e bytes.Buffer
		cmd.Stdout, cmd.Stderr = &o, &e
		require.NoError(t, kerneltest.StartWith(cmd, capability.CAP_PERFMON, capability.CAP_SYS_ADMIN, capability.CAP_SYS_PTRACE))
		require.NoError(t, cmd.Wait(), e.String())
		return o.String(), e.String()
	}
	page := strconv.FormatUint(start>>12, 16) // the digits that all of a function's addresses have in common, or nearly all
	out, _ = run("", "lookup", address)
	assert.Contains(t, out, address+" vfs_read+0x0 [vmlinux] ")
	out, _ = run("", "lookup", address+"+0x10")
	assert.Contains(t, out, " vfs_read [vmlinux] ")
	assert.NotContains(t, out, page)
	out, _ = run("at "+address+"\n", "annotate")
	assert.Equal(t, "at "+address+" vfs_read+0x0\n", out)
	out, errs = run("", "top", "--duration", "1s", "-n", "0")
	assert.Regexp(t, `(?m)^ *[0-9.]+% +[0-9.]+% +[a-z_0-9.]+ +vmlinux$`, out)
	assert.NotContains(t, out+errs, page[:len(page)-3])
	out, errs = run("", "top", "--off-cpu", "--duration", "1s", "-n", "0")
	assert.Regexp(t, ` vmlinux\n`, out)
	assert.NotRegexp(t, `[1-9][0-9.]* +[0-9.]+ +schedule +vmlinux\n`, out, "the scheduler is left out of SELF")
	assert.NotContains(t, out+errs, page[:len(page)-3])
	out, errs = run("", "stacks")
	assert.Contains(t, out, "in state S")
	assert.NotContains(t, out+errs, page[:len(page)-3])
}
