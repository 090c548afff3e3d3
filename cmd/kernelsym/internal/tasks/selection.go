// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// A Selection selects tasks: the threads of some processes, and some other threads. The empty Selection selects all tasks.
type Selection struct {
	PIDs, TIDs []uint32
}

// IsAll reports whether all tasks are selected.
func (s *Selection) IsAll() bool { return len(s.PIDs)+len(s.TIDs) == 0 }

// Has reports whether a thread of a process is selected.
func (s *Selection) Has(pid, tid uint32) bool {
	return s.IsAll() || slices.Contains(s.PIDs, pid) || slices.Contains(s.TIDs, tid)
}

// directories yields the directory PID/task/TID of each selected thread, which may have ended. A thread that is selected twice comes twice.
func (s *Selection) directories(procfs string) iter.Seq[string] {
	processes := make([]string, 0, len(s.PIDs))
	for _, pid := range s.PIDs {
		processes = append(processes, filepath.Join(procfs, id(pid)))
	}
	if s.IsAll() {
		processes, _ = filepath.Glob(filepath.Join(procfs, "[0-9]*")) // the pattern is well-formed
	}
	return func(yield func(string) bool) {
		for _, process := range processes {
			threads, _ := filepath.Glob(filepath.Join(process, "task", "[0-9]*")) // none if it has ended
			for _, thread := range threads {
				if !yield(thread) {
					return
				}
			}
		}
		for _, tid := range s.TIDs {
			process := id(uint32(procname.Leader(procfs, uint(tid)))) // 0 if it has ended
			if !yield(filepath.Join(procfs, process, "task", id(tid))) {
				return
			}
		}
	}
}

// Threads returns the ids of the selected threads, each with whether its process is selected. It lists them again while threads
// of these processes begin or end, because a list can then lack others (proc_task_readdir in fs/proc/base.c). It reports false
// if that goes on.
func (s *Selection) Threads(mount string) (threads map[uint32]bool, complete bool) {
	for range tries {
		before := s.sizes(mount)
		threads, listed := make(map[uint32]bool), make(map[uint32]int)
		for dir := range s.directories(mount) {
			tid, pid := number(filepath.Base(dir)), number(filepath.Base(filepath.Dir(filepath.Dir(dir))))
			if _, again := threads[tid]; again {
				continue
			}
			threads[tid] = slices.Contains(s.PIDs, pid)
			if threads[tid] {
				listed[pid]++
			}
		}
		if maps.Equal(before, listed) && maps.Equal(s.sizes(mount), listed) {
			return threads, true
		}
	}
	return nil, false
}

// sizes returns how many threads the selected processes have. Those that have ended have none.
func (s *Selection) sizes(mount string) map[uint32]int {
	sizes := make(map[uint32]int)
	for _, pid := range s.PIDs {
		if n, _ := procfs.Status(mount, id(pid), "Threads:"); len(n) == 1 {
			sizes[pid] = int(number(n[0]))
		}
	}
	return sizes
}

func id(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
