// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// taskTree returns the flags for the kernel of symbolList with tasks: two of one process that sleep at the same place, and
// one that waits for a disk.
func taskTree(t *testing.T) []string {
	t.Helper()
	tree := treeWithID(t)
	for task, status := range map[string]string{
		"10/task/10": "Name:\tbash\nState:\tS (sleeping)\nTgid:\t10\nPid:\t10\n", "10/task/11": "Name:\t\x1b[31m\nState:\tS (sleeping)\nTgid:\t10\nPid:\t11\n",
		"20/task/20": "Name:\tdd\nState:\tD (disk sleep)\nTgid:\t20\nPid:\t20\n",
	} {
		dir := filepath.Join(tree[1], task)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		stack := "[<0>] main_loop+0x10/0x40\n[<0>] startup_64+0x11/0x40\n"
		if task == "20/task/20" {
			stack = "[<0>] nft_do+0x4/0x40 [nf_tables]\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "status"),
			[]byte(status+"voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stack"), []byte(stack), 0o600))
	}
	return tree
}

// TestStacks prints the stacks of tasks, with lines from the running kernel's pack.
func TestStacks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	writePack(t, other, otherKernelID, kernelPack(otherKernelID))
	tree := taskTree(t)
	const bare = `1 task in state D: dd[20]
    nft_do+0x4 [nf_tables]

2 tasks in state S: bash[10], �[31m[11]
    main_loop+0x10
    startup_64+0x11
`
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no packs", nil, bare},
		{"the pack of another kernel", []string{"--pack", other}, bare},
		{"one state", []string{"--state", "D"}, "1 task in state D: dd[20]\n    nft_do+0x4 [nf_tables]\n"},
		{"none", []string{"--state", "I"}, "No task is in one of these states.\n"},
		{"inlined", []string{"--pack", dir, "--state", "S"}, `2 tasks in state S: bash[10], �[31m[11]
    core::fmt::pick include/idle.h:31 (inlined)
    idle include/idle.h:5 (inlined)
    main_loop+0x10 init/main.c:14
    startup_64+0x11 entry.S:7
`},
		{"JSON", []string{"-o", "json", "--pack", dir, "--state", "S"}, `{"state":"S","tasks":[{"pid":10,"tid":10,"name":"bash"},{"pid":10,"tid":11,"name":"\u001b[31m"}],` +
			`"frames":[{"function":"main_loop","offset":16,"size":64,"inlined":[{"function":"core::fmt::pick","file":"include/idle.h","line":31},` +
			`{"function":"idle","file":"include/idle.h","line":5}],"source":{"file":"init/main.c","line":14}},` +
			`{"function":"startup_64","offset":17,"size":64,"source":{"file":"entry.S","line":7}}]}
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, err := execute(t, "", append(append([]string{"stacks"}, tree...), tt.args...)...)
			require.NoError(t, err)
			assert.Equal(t, tt.want, out)
			assert.Contains(t, errs, "only the tasks of this PID namespace are shown", "the tree has no kthreadd")
		})
	}
}

func TestStacksOfWrongTasks(t *testing.T) {
	tree := taskTree(t)
	for want, args := range map[string][]string{
		`--state is "X": it takes D, S, I, T or t`:  {"--state", "X"},
		`--state is "": it takes D, S, I, T or t`:   {"--state", ""},
		`--state is "DS": it takes D, S, I, T or t`: {"--state", "D,DS"},
		"there is no process 99":                    {"-p", "99"},
	} {
		_, errs, err := execute(t, "", append(append([]string{"stacks"}, tree...), args...)...)
		require.ErrorIs(t, err, errUsage)
		assert.Contains(t, errs, want)
	}
}
