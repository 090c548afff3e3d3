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

var errFields = errors.New("too few fields")

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
	const kthread = 1 << 21 // PF_KTHREAD of include/linux/sched.h; the same since Linux 2.6.29
	_, flags, err := stat(mount, id)
	return err == nil && flags&kthread != 0
}

// Life says whether a thread has ended.
type Life uint8

// The parts of a thread's life.
const (
	Unknown Life = iota
	Lives
	Ending // the kernel is ending it (since exit_signals in kernel/signal.c)
	Ended  // it will not run again, but still has its number
)

// LifeOf returns what /proc says about a thread. Its error says that the thread has no number any more, that /proc hides it (the
// option hidepid), or that this process may not read it now.
func LifeOf(mount, id string) (Life, error) {
	const exiting = 1 << 2 // PF_EXITING of include/linux/sched.h; the same since Linux 2.6
	state, flags, err := stat(mount, id)
	switch {
	case err != nil:
		return Unknown, err
	case state == 'Z' || state == 'X': // get_task_state in fs/proc/array.c
		return Ended, nil
	case flags&exiting != 0:
		return Ending, nil
	}
	return Lives, nil
}

// stat reads the state and the flags of a thread (do_task_stat in fs/proc/array.c).
func stat(mount, id string) (state byte, flags uint64, err error) {
	text, err := os.ReadFile(filepath.Join(mount, id, "stat"))
	if err != nil {
		return 0, 0, err
	}
	const atState, atFlags = 0, 6 // of the fields after the name, which can itself contain ") "
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= atFlags {
		return 0, 0, errFields
	}
	flags, err = strconv.ParseUint(fields[atFlags], 10, 32)
	return fields[atState][0], flags, err
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
