// SPDX-License-Identifier: Apache-2.0

// Package procfs reads process information from /proc (proc(5)).
package procfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrPIDNamespace says that this process cannot see the numbers of all threads.
var ErrPIDNamespace = errors.New("this process must be in the initial PID namespace: in a container, share the host's (hostPID: true)")

// IsOurs reports whether a procfs belongs to this process's PID namespace. In that of another, the numbers that this
// process knows belong to other processes.
func IsOurs(mount string) bool {
	self, err := os.Readlink(filepath.Join(mount, "self"))
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		return false
	}
	// The link is not enough, because both ids can be the same number. The status has an id for
	// each namespace from that of procfs to the process's own (task_state in fs/proc/array.c). A
	// kernel without PID namespaces has none.
	ids, err := Status(mount, self, "NSpid:")
	return err == nil && len(ids) <= 1
}

// Status returns the values of a field of the status of a process or thread, or nil if it has no such field.
func Status(mount, id, field string) (values []string, err error) {
	text, err := os.ReadFile(filepath.Join(mount, id, "status"))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			return strings.Fields(value), nil
		}
	}
	return nil, err
}

// Limit returns a resource limit of this process, named as in /proc/self/limits: the soft limit, the hard limit, each a number
// or "unlimited", and the unit. It returns nil if the limit cannot be read, or has no unit.
func Limit(mount, name string) []string {
	text, _ := os.ReadFile(filepath.Join(mount, "self", "limits"))
	for line := range strings.Lines(string(text)) {
		if values, ok := strings.CutPrefix(line, name+" "); ok && len(strings.Fields(values)) == 3 {
			return strings.Fields(values)
		}
	}
	return nil
}

// IsKernelThread reports whether a thread is one of the kernel's own, a child of kthreadd. A process can take the name of any
// thread, but not its flags.
func IsKernelThread(mount, id string) bool {
	stat, err := os.ReadFile(filepath.Join(mount, id, "stat"))
	if err != nil {
		return false
	}
	const flags = 6         // of the fields after the name, which can itself contain ") " (do_task_stat in fs/proc/array.c)
	const kthread = 1 << 21 // PF_KTHREAD of include/linux/sched.h; the same since Linux 2.6.29
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= flags {
		return false
	}
	value, err := strconv.ParseUint(fields[flags], 10, 32)
	return err == nil && value&kthread != 0
}

// CheckInitialPIDNamespace returns an error unless this process is in the initial PID namespace, which shows the numbers
// of all threads, and a procfs is that namespace's.
func CheckInitialPIDNamespace(mount string) error {
	const initial = "pid:[4026531836]" // PID_NS_INIT_INO of include/uapi/linux/nsfs.h; the same since Linux 3.8
	namespaces := filepath.Join(mount, "self", "ns")
	namespace, err := os.Readlink(filepath.Join(namespaces, "pid"))
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(namespaces)
		return err // a kernel without PID namespaces
	}
	if err == nil && (namespace != initial || !IsOurs(mount)) {
		return ErrPIDNamespace
	}
	return err
}
