// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
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

// TestContract_2_3_Stacks verifies that a frame which was interrupted gets the line of the instruction there, and that a frame
// gets no line if it is not known whether it was.
func TestContract_2_3_Stacks(t *testing.T) {
	const (
		entry  = "[<0>] startup_64+0x11/0x40\n"
		frame  = "[<0>] main_loop+0x10/0x40\n"
		same   = "[<0>] main_loop+0x4/0x40\n"
		nobody = "[<0>] nobody+0x1/0x40\n"
		module = "[<0>] nft_do+0x4/0x40 [nf_tables]\n"
		bpf    = "[<0>] 0xffffffffc0a01234\n"
		behind = "[<0>] startup_64+0x40/0x40\n"

		atEntry    = "    startup_64+0x11 entry.S:7\n"
		asCaller   = "    core::fmt::pick include/idle.h:31 (inlined)\n    idle include/idle.h:5 (inlined)\n    main_loop+0x10 init/main.c:14\n"
		asExact    = "    idle include/idle.h:6 (inlined)\n    main_loop+0x10 init/main.c:14\n"
		bare       = "    main_loop+0x10\n"
		atSame     = "    main_loop+0x4 init/main.c:11\n"
		bareNobody = "    nobody+0x1\n"
		bareModule = "    nft_do+0x4 [nf_tables]\n"
		bareBehind = "    startup_64+0x40\n"
		atEnd      = "    startup_64+0x40 entry.S:7\n"
	)
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPackOf(pack.Info{BuildID: kernelID, Marks: pack.Marks{Entry: pack.Range{Start: 0x10, End: 0x40}}}))
	for _, tt := range []struct{ stack, want string }{
		{frame + frame, asCaller + asCaller},
		{frame + entry + frame + frame, asCaller + atEntry + asExact + asCaller},
		{entry + entry + frame, atEntry + atEntry + asExact},
		{entry + module + frame, atEntry + bareModule + asCaller},
		{nobody + frame + frame, bareNobody + bare + asCaller},
		{entry + nobody + same + frame, atEntry + bareNobody + atSame + asCaller},
		{nobody + module + frame, bareNobody + bareModule + asCaller},
		{entry + bpf + frame + frame, atEntry + asCaller + asCaller},
		{nobody + bpf + frame, bareNobody + asCaller},
		{bpf + frame + bpf, asCaller},
		{same + behind + same, atSame + atEnd + atSame},
		{same + entry + behind + same, atSame + atEntry + bareBehind + atSame},
		{nobody + behind + same, bareNobody + bareBehind + atSame},
	} {
		tree := taskTree(t)
		require.NoError(t, os.WriteFile(filepath.Join(tree[1], "20/task/20/stack"), []byte(tt.stack), 0o600))
		out, _, err := execute(t, "", append([]string{"stacks", "--pack", dir, "--state", "D"}, tree...)...)
		require.NoError(t, err)
		assert.Equal(t, "1 task in state D: dd[20]\n"+tt.want, out, tt.stack)
	}
}

// TestContract_2_3_LookupStacks verifies that lookup reads lines of /proc/PID/stack likewise, except that a frame behind entry
// code may also begin another stack.
func TestContract_2_3_LookupStacks(t *testing.T) {
	const (
		entry  = "[<0>] startup_64+0x11/0x40\n"
		frame  = "[<0>] main_loop+0x10/0x40\n"
		same   = "[<0>] main_loop+0x4/0x40\n"
		behind = "startup_64+0x40/0x40\n"
		build  = " [vmlinux] " + kernelID
		caller = "vmlinux+0x60 core::fmt::pick include/idle.h:31 (inlined)\n             idle include/idle.h:5 (inlined)\n" +
			"             main_loop+0x10" + build + " init/main.c:14\n"
		bare    = "vmlinux+0x60 main_loop+0x10" + build + "\n"
		atEntry = "vmlinux+0x11 startup_64+0x11" + build + " entry.S:7\n"
		atEnd   = "vmlinux+0x40 startup_64+0x40" + build
		atSame  = "vmlinux+0x54 main_loop+0x4" + build + " init/main.c:11\n"
	)
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPackOf(pack.Info{BuildID: kernelID, Marks: pack.Marks{Entry: pack.Range{Start: 0x10, End: 0x40}}}))
	nowhere := []string{"lookup", "--procfs", t.TempDir(), "--sysfs", t.TempDir(), "--pack", dir}
	for _, tt := range []struct{ flag, text, want string }{
		{"--caller", frame + entry + frame + frame, caller + atEntry + bare + caller},
		{"--caller", entry + same + frame, atEntry + atSame + caller},
		{"--caller", entry + "startup_64\n" + frame, atEntry + "vmlinux+0x0-vmlinux+0x40 startup_64" + build + " entry.S:7\n" + caller},
		{"--caller=false", entry + same, atEntry + atSame},
		{"--caller", same + "[<0>] " + behind + same, atSame + atEnd + " entry.S:7\n" + atSame},
		{"--caller", same + entry + "[<0>] " + behind + same, atSame + atEntry + atEnd + "\n" + atSame},
		{"--caller=false", behind, atEnd + " entry.S:7\n"},
	} {
		out, errs, err := execute(t, tt.text, append(nowhere, tt.flag)...)
		require.NoError(t, err, errs)
		assert.Equal(t, tt.want, out, tt.text)
	}
}
