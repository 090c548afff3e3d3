// Package procname returns the processes that records of the kernel are about.
package procname

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// A Process is one that did something.
type Process struct {
	PID  uint32 `json:"pid"`
	Name string `json:"name,omitempty"` // empty if it has ended, or is not certain
}

// String returns NAME[PID], or PID alone.
func (p *Process) String() string {
	if p.Name == "" {
		return strconv.FormatUint(uint64(p.PID), 10)
	}
	return fmt.Sprintf("%s[%d]", p.Name, p.PID)
}

// Names are those of processes. The zero value knows none.
type Names struct {
	procfs string // empty if its process ids are not those of records
}

// In returns the names that are in procfs. Records have the process ids of this process's PID
// namespace. The procfs of another namespace has other processes by these ids: no name is
// certain then.
func In(procfs string) Names {
	if !IsOurs(procfs) {
		return Names{}
	}
	return Names{procfs}
}

// IsOurs reports whether procfs is of this process's PID namespace.
func IsOurs(procfs string) bool {
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

// Process returns the process of a record, nil if the record names none: the idle task, one of
// a namespace that is not visible here, or one that has all but exited.
func (n Names) Process(pid uint32) *Process {
	if pid == 0 || pid == perfring.NoTask {
		return nil
	}
	return &Process{PID: pid, Name: n.of(pid)}
}

// of returns the name of a process, empty if it has ended or is not certain. What cannot be
// printed is replaced: a process chooses its name, which must not control the terminal.
func (n Names) of(pid uint32) string {
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
