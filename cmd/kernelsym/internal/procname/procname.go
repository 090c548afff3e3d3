// SPDX-License-Identifier: Apache-2.0

// Package procname identifies the processes in records of the kernel.
package procname

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// A Process is a process that did something.
type Process struct {
	PID  uint32 `json:"pid"`
	Name string `json:"name,omitempty"` // empty if the process has ended, or if uncertain
}

// String returns NAME[PID], or PID alone.
func (p *Process) String() string {
	if p.Name == "" {
		return strconv.FormatUint(uint64(p.PID), 10)
	}
	return fmt.Sprintf("%s[%d]", p.Name, p.PID)
}

// Names returns the names of processes. The zero value has none.
type Names struct {
	procfs string // empty if records have other process ids
}

// In returns the names in procfs. Records have the process ids of this process's PID namespace. In
// the procfs of another namespace, these ids belong to other processes, so no name is certain.
func In(mount string) Names {
	if !procfs.IsOurs(mount) {
		return Names{}
	}
	return Names{mount}
}

// Leader returns the process that a process or thread belongs to, or 0 if procfs does not have it.
func Leader(mount string, id uint) uint {
	var leader uint64
	if ids, _ := procfs.Status(mount, strconv.FormatUint(uint64(id), 10), "Tgid:"); len(ids) == 1 {
		leader, _ = strconv.ParseUint(ids[0], 10, 32)
	}
	return uint(leader)
}

// Process returns the process of a record, or nil if the record names none. This is the case for
// the idle task, for a process in a namespace that is not visible here, and for a process that has
// all but exited.
func (n Names) Process(pid uint32) *Process {
	if pid == 0 || pid == perfring.NoTask {
		return nil
	}
	return &Process{PID: pid, Name: n.of(pid)}
}

// of returns the name of a process. It is empty if the process has ended or the name is uncertain.
func (n Names) of(pid uint32) string {
	if n.procfs == "" {
		return ""
	}
	text, _ := os.ReadFile(filepath.Join(n.procfs, strconv.FormatUint(uint64(pid), 10), "comm"))
	return strings.TrimSpace(string(text))
}
