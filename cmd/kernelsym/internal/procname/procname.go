// Package procname returns the names of processes that records of the kernel are about.
package procname

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// Names are those of processes. The zero value knows none.
type Names struct {
	procfs string // empty if its process ids are not those of records
}

// In returns the names that are in procfs. Records have the process ids of this process's PID
// namespace. The procfs of another namespace has other processes by these ids: no name is
// certain then.
func In(procfs string) Names {
	if !isOurs(procfs) {
		return Names{}
	}
	return Names{procfs}
}

// isOurs reports whether procfs is of this process's PID namespace.
func isOurs(procfs string) bool {
	self, err := os.Readlink(filepath.Join(procfs, "self"))
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		return false
	}
	status, err := os.ReadFile(filepath.Join(procfs, self, "status"))
	if err != nil {
		return false
	}
	// It has an id for each namespace from that of procfs to the process's own
	// (task_state in fs/proc/array.c): both ids can be the same number.
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(ids)) == 1
		}
	}
	return true // a kernel without PID namespaces
}

// Of returns the name of a process, empty if it has ended or is not certain. What cannot be
// printed is replaced: a process chooses its name, which must not control the terminal.
func (n Names) Of(pid uint32) string {
	if n.procfs == "" {
		return ""
	}
	text, _ := os.ReadFile(filepath.Join(n.procfs, strconv.FormatUint(uint64(pid), 10), "comm"))
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.TrimSpace(string(text)))
}
