// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addThread adds a thread with the files stat and, unless it is empty, schedstat to a directory that stands for /proc.
func addThread(t *testing.T, procfs string, pid, tid, started int, state, schedstat string) {
	t.Helper()
	addTask(t, procfs, pid, tid, "x", state, "")
	dir := filepath.Join(procfs, strconv.Itoa(pid), "task", strconv.Itoa(tid))
	text := fmt.Sprintf("%d (a) R (b) %s%s %d%s 3 0\n", tid, state, strings.Repeat(" 1", 5)+" 4194560"+strings.Repeat(" 1", 12), started, strings.Repeat(" 2", 16))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(procfs, strconv.Itoa(pid), "status"), []byte("Tgid:\t"+strconv.Itoa(pid)+"\n"), 0o600))
	if schedstat != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "schedstat"), []byte(schedstat), 0o600))
	}
}

func TestSelectionRead(t *testing.T) {
	procfs := t.TempDir()
	addThread(t, procfs, 10, 10, 500, "D", "1 20 3\n")
	addThread(t, procfs, 10, 11, 501, "R", "")
	addThread(t, procfs, 20, 20, 0, "S", "no 20 3\n")
	require.NoError(t, os.Mkdir(filepath.Join(procfs, "11"), 0o755)) // procfs has a directory for each thread, too
	require.NoError(t, os.WriteFile(filepath.Join(procfs, "11", "status"), []byte("Tgid:\t10\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(procfs, "20", "task", "21"), 0o755))
	all := Reading{
		10: {PID: 10, State: 'D', started: 500, sched: [3]int64{1, 20, 3}}, 11: {PID: 10, State: 'R', started: 501}, 20: {PID: 20, State: 'S'},
	}
	assert.Equal(t, all, (&Selection{}).Read(procfs, 3), "21 has ended")
	assert.Nil(t, (&Selection{}).Read(procfs, 2))
	assert.Equal(t, Reading{20: all[20]}, (&Selection{PIDs: []uint32{20, 99}}).Read(procfs, 3))
	assert.Equal(t, Reading{11: all[11]}, (&Selection{TIDs: []uint32{11, 99}}).Read(procfs, 3))
	assert.True(t, all[10].Waits())
	assert.False(t, all[11].Waits())
	assert.False(t, Thread{}.Waits(), "it is in no reading")

	require.NoError(t, os.WriteFile(filepath.Join(procfs, "10", "task", "10", "stack"), []byte(stack), 0o600))
	r := Reader{Procfs: procfs, States: "D", Of: Selection{TIDs: []uint32{10}}}
	blocked, err := r.Read()
	require.NoError(t, err)
	assert.Equal(t, []uint32{10, 3}, []uint32{blocked[0].TID, blocked[0].CPU})
}

func TestSelectionThreads(t *testing.T) {
	procfs := t.TempDir()
	for _, tid := range []int{10, 11} {
		addThread(t, procfs, 10, tid, 500, "S", "")
	}
	addThread(t, procfs, 20, 20, 500, "S", "")
	addThread(t, procfs, 20, 21, 500, "S", "")
	require.NoError(t, os.Mkdir(filepath.Join(procfs, "21"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(procfs, "21", "status"), []byte("Tgid:\t20\n"), 0o600))
	says := func(threads string) {
		require.NoError(t, os.WriteFile(filepath.Join(procfs, "10", "status"), []byte("Tgid:\t10\nThreads:\t"+threads+"\n"), 0o600))
	}
	says("2")
	for _, c := range []struct {
		name string
		of   Selection
		want map[uint32]bool
	}{
		{"a process", Selection{PIDs: []uint32{10}}, map[uint32]bool{10: true, 11: true}},
		{"a thread", Selection{TIDs: []uint32{21}}, map[uint32]bool{21: false}},
		{"both, and a thread twice", Selection{PIDs: []uint32{10}, TIDs: []uint32{11, 21}}, map[uint32]bool{10: true, 11: true, 21: false}},
		{"some have ended", Selection{PIDs: []uint32{10, 99}}, map[uint32]bool{10: true, 11: true}},
	} {
		threads, complete := c.of.Threads(procfs)
		assert.True(t, complete, c.name)
		assert.Equal(t, c.want, threads, c.name)
	}
	says("3")
	_, complete := (&Selection{PIDs: []uint32{10}}).Threads(procfs)
	assert.False(t, complete, "a thread is not in the list")
	_, complete = (&Selection{TIDs: []uint32{10}}).Threads(procfs)
	assert.True(t, complete, "other threads are not wanted")
}

func TestDelaysSince(t *testing.T) {
	thread := func(pid uint32, started uint64, sched ...int64) Thread {
		return Thread{PID: pid, State: 'S', started: started, sched: [3]int64(sched)}
	}
	one := thread(10, 5, 100, 1000, 7)
	type delays map[uint32]time.Duration
	for _, c := range []struct {
		name               string
		before, now        Reading
		threads, processes delays
	}{
		{"the same thread", Reading{10: one}, Reading{10: thread(10, 5, 100, 1500, 8)}, delays{10: 500}, delays{10: 500}},
		{"it did not run", Reading{10: one}, Reading{10: one}, delays{10: 0}, delays{10: 0}},
		{
			"two threads", Reading{10: one, 11: one}, Reading{10: thread(10, 5, 100, 1500, 8), 11: thread(10, 5, 100, 1600, 8)},
			delays{10: 500, 11: 600}, delays{10: 1100},
		},
		{"the kernel does not count", Reading{10: thread(10, 5, 0, 0, 0)}, Reading{10: thread(10, 5, 0, 0, 0)}, nil, nil},
		{"it had never run", Reading{10: thread(10, 5, 0, 0, 0)}, Reading{10: one}, nil, nil},
		{"another thread", Reading{10: one}, Reading{10: thread(10, 6, 100, 1500, 8)}, nil, nil},
		{"a thread of another process", Reading{10: one}, Reading{10: thread(11, 5, 100, 1500, 8)}, nil, nil},
		{"a number is less", Reading{10: one}, Reading{10: thread(10, 5, 99, 1500, 8)}, nil, nil},
		{"new", nil, Reading{10: one}, nil, nil},
		{"gone", Reading{10: one}, nil, nil, nil},
		{"one is new", Reading{10: one, 11: one}, Reading{10: one, 11: one, 12: one}, delays{10: 0, 11: 0}, nil},
		{"one is gone", Reading{10: one, 11: one, 12: one}, Reading{10: one, 12: one}, delays{10: 0, 12: 0}, nil},
		{"all others are gone, as after execve", Reading{10: one, 11: one}, Reading{10: one, 12: one}, nil, nil},
		{"the first thread and others are gone", Reading{10: one, 11: one}, Reading{11: one}, delays{11: 0}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.now.DelaysSince(c.before)
			assert.Len(t, d.Threads, len(c.threads))
			assert.Len(t, d.Processes, len(c.processes))
			for tid, want := range c.threads {
				assert.Equal(t, want, d.Threads[tid])
			}
			for pid, want := range c.processes {
				assert.Equal(t, want, d.Processes[pid])
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		name, flags string
		exits       bool
	}{{"it goes on", "4194560", false}, {"it ends", "4194564", true}} {
		s, ok := parseStat([]byte("1 (a) b) S 0 1 1 0 -1 " + c.flags + strings.Repeat(" 0", 12) + " 500" + strings.Repeat(" 0", 16) + " 3 0"))
		assert.True(t, ok, c.name)
		assert.Equal(t, stat{state: 'S', exits: c.exits, started: 500, cpu: 3}, s, c.name)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (a) b) S" + strings.Repeat(" 7", 40))
	f.Add("1 (a) S")
	f.Add(")")
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := parseStat([]byte(text)); ok {
			assert.Contains(t, text, ")")
			assert.NotEmpty(t, bytes.TrimSpace([]byte{s.state}))
			again, _ := parseStat([]byte("1 (a) R 1 2 " + text))
			assert.Equal(t, s, again, "a name can have any text")
		}
	})
}
