// SPDX-License-Identifier: Apache-2.0

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
	// The status has an id for each namespace from that of procfs to the process's own
	// (task_state in fs/proc/array.c): both ids can be the same number. A kernel without PID
	// namespaces has none.
	ids, err := status(procfs, self, "NSpid:")
	return err == nil && len(ids) <= 1
}

// Leader returns the process that a process or thread belongs to, 0 if procfs has none of that id.
func Leader(procfs string, id uint) uint {
	var leader uint64
	if ids, _ := status(procfs, strconv.FormatUint(uint64(id), 10), "Tgid:"); len(ids) == 1 {
		leader, _ = strconv.ParseUint(ids[0], 10, 32)
	}
	return uint(leader)
}

// status returns a field of the status of a process or thread, nil if it has no such field.
func status(procfs, id, field string) (values []string, err error) {
	text, err := os.ReadFile(filepath.Join(procfs, id, "status"))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			return strings.Fields(value), nil
		}
	}
	return nil, err
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
