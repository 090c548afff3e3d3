// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"iter"
	"path/filepath"
	"strconv"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
)

// A Selection selects tasks: the threads of some processes, and some other threads. The empty Selection selects all tasks.
type Selection struct {
	PIDs, TIDs []uint32
}

// IsAll reports whether all tasks are selected.
func (s *Selection) IsAll() bool { return len(s.PIDs)+len(s.TIDs) == 0 }

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

func id(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
