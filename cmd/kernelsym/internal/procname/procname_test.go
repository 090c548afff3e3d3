// SPDX-License-Identifier: Apache-2.0

package procname

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// mountOf returns a directory with a process 77, and with an id and a status for this process.
func mountOf(t *testing.T, self, status, comm string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{self + "/status": status, "77/comm": comm} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "self")))
	return dir
}

func TestNames(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	assert.Equal(t, "loader", In(mountOf(t, pid, "NSpid:\t"+pid+"\n", "loader\n")).of(77))
	assert.Equal(t, "old", In(mountOf(t, pid, "Name:\tx\n", "old\n")).of(77), "a kernel without namespaces")
	assert.Empty(t, In(mountOf(t, pid, "", "loader\n")).of(78), "it has ended")
	assert.Empty(t, In(mountOf(t, pid+"0", "NSpid:\t"+pid+"0\t"+pid+"\n", "wrong\n")).of(77), "another namespace")
	assert.Empty(t, In(mountOf(t, pid, "NSpid:\t"+pid+"\t"+pid+"\n", "wrong\n")).of(77), "another, with the same id by chance")
	assert.Empty(t, In(t.TempDir()).of(77))
	assert.Empty(t, Names{}.of(77))
}

func TestProcess(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	names := In(mountOf(t, pid, "NSpid:\t"+pid+"\n", "loader\n"))
	assert.Equal(t, "loader[77]", names.Process(77).String())
	assert.Equal(t, "78", names.Process(78).String(), "it has ended")
	assert.Equal(t, &Process{PID: 77}, Names{}.Process(77))
	for _, none := range []uint32{0, perfring.NoTask} {
		assert.Nil(t, names.Process(none))
	}
}

func TestLeader(t *testing.T) {
	assert.Equal(t, uint(70), Leader(mountOf(t, "77", "Name:\tx\nTgid:\t70\nNgid:\t0\n", ""), 77))
	assert.Zero(t, Leader(t.TempDir(), 77))
	assert.Equal(t, uint(os.Getpid()), Leader("/proc", uint(os.Getpid())))
}

// TestNamesOfThisMachine verifies that this process has its name in /proc.
func TestNamesOfThisMachine(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	assert.Equal(t, strings.TrimSpace(string(comm)), In("/proc").of(uint32(os.Getpid())))
}
