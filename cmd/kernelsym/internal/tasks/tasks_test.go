// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addTask adds a task to a directory that stands for /proc. Without a stack, it has no such file.
func addTask(t *testing.T, procfs string, pid, tid int, name, state, stack string) {
	t.Helper()
	dir := filepath.Join(procfs, strconv.Itoa(pid), "task", strconv.Itoa(tid))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	status := "Name:\t" + name + "\nState:\t" + state + " (something)\nTgid:\t" + strconv.Itoa(pid) + "\nPid:\t" + strconv.Itoa(tid) +
		"\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "status"), []byte(status), 0o600))
	if stack != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stack"), []byte(stack), 0o600))
	}
}

const stack = "[<0>] folio_wait_bit+0x130/0x250\n[<0>] ext4_sync_file+0x13/0x40 [ext4]\n[<0>] 0xffffffffc0001234\n" +
	"[<0>] nft_do+0x1/0x2 [nf_tables 0123456789abcdef]\n[<ffffffff81000000>] old+0x1/0x2\n[<0>] core::fmt::write+0x1/0x2\n"

func TestRead(t *testing.T) {
	procfs := t.TempDir()
	addTask(t, procfs, 10, 10, "dd", "D", stack)
	addTask(t, procfs, 10, 11, "dd worker", "S", "[<0>] a+0x1/0x2\n")
	addTask(t, procfs, 10, 12, "runs", "R", "[<0>] a+0x1/0x2\n")
	addTask(t, procfs, 20, 20, "idle", "I", "\n")
	r := Reader{Procfs: procfs, States: "DS"}
	blocked, err := r.Read()
	require.NoError(t, err)
	assert.Equal(t, []Task{
		{PID: 10, TID: 10, Name: "dd", State: 'D', Stack: []Frame{
			{"folio_wait_bit", 0x130, 0x250, ""}, {"ext4_sync_file", 0x13, 0x40, "ext4"}, {}, {"nft_do", 1, 2, "nf_tables"},
			{"old", 1, 2, ""}, {"core::fmt::write", 1, 2, ""},
		}},
		{PID: 10, TID: 11, Name: "dd worker", State: 'S', Stack: []Frame{{"a", 1, 2, ""}}},
	}, blocked)
	assert.Equal(t, "ext4_sync_file+0x13/0x40 [ext4]", blocked[0].Stack[1].String())

	r = Reader{Procfs: procfs, States: "SI", Of: Selection{PIDs: []uint32{20}}}
	blocked, err = r.Read()
	require.NoError(t, err)
	assert.Equal(t, []Task{{PID: 20, TID: 20, Name: "idle", State: 'I'}}, blocked, "it has no stack, but waits")
}

// TestStacksThatCannotBeRead: a kernel without stacks is an error. A task that has ended is none.
func TestStacksThatCannotBeRead(t *testing.T) {
	procfs := t.TempDir()
	addTask(t, procfs, 10, 10, "dd", "D", "")
	r := Reader{Procfs: procfs, States: "D"}
	_, err := r.Read()
	require.ErrorIs(t, err, ErrNoStacks)

	require.NoError(t, os.Symlink("20", filepath.Join(procfs, "self")))
	addTask(t, procfs, 20, 20, "self", "R", "[<0>] a+0x1/0x2\n")
	require.NoError(t, os.WriteFile(filepath.Join(procfs, "20", "stack"), nil, 0o600))
	blocked, err := r.Read()
	require.NoError(t, err, "other tasks have stacks, so this one has ended")
	assert.Empty(t, blocked)
}

func FuzzParseStack(f *testing.F) {
	f.Add(stack)
	f.Add("[<0>] a+0x1/0x2 [b\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, frame := range parseStack(text) {
			assert.True(t, frame == Frame{} || frame.Function != "")
			assert.NotContains(t, frame.String(), "\n")
		}
	})
}

func TestSelection(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    Selection
		want bool
	}{
		{"none", Selection{}, true},
		{"process", Selection{PIDs: []uint32{9, 10}}, true},
		{"another process", Selection{PIDs: []uint32{11}}, false},
		{"thread", Selection{TIDs: []uint32{11}}, true},
		{"another process, but the thread", Selection{PIDs: []uint32{1}, TIDs: []uint32{11}}, true},
	} {
		assert.Equal(t, tt.want, tt.s.Has(10, 11), tt.name)
	}
}
