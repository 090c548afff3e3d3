// SPDX-License-Identifier: Apache-2.0

// Package tasks reads the kernel stacks of blocked threads from /proc/PID/task/TID (proc(5)).
package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A Task is a thread that is off the CPU.
type Task struct {
	PID, TID uint32
	CPU      uint32 // that it left
	Name     string // empty if it cannot be read
	State    byte   // as in /proc/PID/status: D, S, I and others
	Exits    bool   // it is ending
	Stack    []Frame
}

// A Frame is a function of the kernel's stack, with the place to which it returns from its call. It is empty for code without a
// name.
type Frame struct {
	Function string
	Offset   uint64 // in the function
	Size     uint64 // of the function
	Module   string // empty for the core kernel
}

// String returns the frame as the kernel prints it (%pB in lib/vsprintf.c).
func (f Frame) String() string {
	text := fmt.Sprintf("%s+%#x/%#x", f.Function, f.Offset, f.Size)
	if f.Module != "" {
		text += " [" + f.Module + "]"
	}
	return text
}

// A Reader reads tasks.
type Reader struct {
	Procfs string // where /proc is mounted
	States string // the states of tasks that are read
	Of     Selection

	Moved   int   // tasks that were left out because they ran while they were read
	Refused int   // tasks that were left out because their stack cannot be read
	Reason  error // why, for the first of these
}

// Errors of Read.
var (
	ErrPermission = errors.New("not permitted to read the stacks of other tasks: run as root, with CAP_SYS_ADMIN and CAP_SYS_PTRACE")
	ErrNoStacks   = errors.New("this kernel does not show stacks in /proc: it was built without CONFIG_STACKTRACE")
)

// Read returns the tasks in the wanted states. The state and the stack of a task belong together: the task did not run
// between reading them. Tasks are read one after the other. Read fails if it can read no stack at all.
func (r *Reader) Read() (blocked []Task, err error) {
	r.Moved, r.Refused, r.Reason = 0, 0, nil
	for dir := range r.Of.directories(r.Procfs) {
		t, ok, err := r.read(dir)
		switch {
		case ok:
			blocked = append(blocked, t)
		case errors.Is(err, ErrNoStacks):
			return nil, err
		case err != nil && r.Refused == 0:
			r.Reason = err
		}
		if err != nil {
			r.Refused++
		}
	}
	if len(blocked) == 0 && r.Refused > 0 {
		return nil, r.Reason
	}
	return blocked, nil
}

// tries is the number of attempts to read a task that keeps running, or the threads of a process that keep changing.
const tries = 3

// read reads a task. It reports false if the task is in another state, keeps running, or has ended.
//
// A task can be in state S while it still runs, just before it leaves the CPU, and then has no stack, or an old one. So the
// task must be off the CPU after its stack was read. If it has not left a CPU since its status was read before, it was off
// the CPU all the time.
//
//	status ──▶ stack, CPU ──▶ is off the CPU ──▶ same status: same number of switches
func (r *Reader) read(dir string) (t Task, ok bool, err error) {
	for range tries {
		before, found := readStatus(dir)
		if !found || !strings.ContainsRune(r.States, rune(before.State)) {
			return Task{}, false, nil
		}
		text, err := os.ReadFile(filepath.Join(dir, "stack"))
		if err != nil {
			return Task{}, false, r.stackError(dir, err)
		}
		stat, _ := readStat(dir)
		isOff := isOffCPU(dir)
		if after, found := readStatus(dir); isOff && found && after == before {
			t = before.Task()
			t.CPU, t.Exits, t.Stack = stat.cpu, stat.exits, parseStack(string(text))
			return t, true, nil
		}
	}
	r.Moved++
	return Task{}, false, nil
}

// stackError explains why a stack cannot be read. It returns nil if the task has ended.
func (r *Reader) stackError(dir string, err error) error {
	switch {
	case !exists(dir), errors.Is(err, fs.ErrNotExist) && r.hasStacks(), strings.Contains(err.Error(), "no such process"):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return ErrNoStacks
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	}
	return err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// isOffCPU reports whether a task is off the CPU. The file syscall says "running" unless the kernel saw it leave the CPU
// (task_current_syscall in lib/syscall.c). A kernel without that file can only be asked by whether there is a stack.
func isOffCPU(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "syscall"))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(dir, "stack"))
		return err == nil && len(text) > 0
	}
	return err == nil && !strings.HasPrefix(string(text), "running")
}

// hasStacks reports whether the kernel shows stacks.
func (r *Reader) hasStacks() bool {
	return exists(filepath.Join(r.Procfs, "self", "stack"))
}

// status holds the fields of a task's status file. If none changes, the task has not run.
type status struct {
	Name     string
	PID, TID uint32
	State    byte
	switches [2]string // how often it left a CPU, by itself and not
}

// Task returns the task, without its stack and its CPU.
func (s *status) Task() Task { return Task{PID: s.PID, TID: s.TID, Name: s.Name, State: s.State} }

func readStatus(dir string) (s status, ok bool) {
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(text)) {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch field {
		case "Name":
			s.Name = value
		case "State":
			if value != "" {
				s.State = value[0]
			}
		case "Tgid":
			s.PID = number(value)
		case "Pid":
			s.TID = number(value)
		case "voluntary_ctxt_switches":
			s.switches[0] = value
		case "nonvoluntary_ctxt_switches":
			s.switches[1] = value
		}
	}
	return s, err == nil && s.State != 0 && s.switches[0] != ""
}

func number(text string) uint32 {
	n, _ := strconv.ParseUint(text, 10, 32)
	return uint32(n)
}

// line matches a line of the file stack (proc_pid_stack in fs/proc/base.c) that has a function.
var line = regexp.MustCompile(`^\[<[0-9a-f]+>\] ([^+\s]+)\+0x([0-9a-f]+)/0x([0-9a-f]+)(?: \[(\S+)(?: [0-9a-f]+)?\])?$`)

// parseStack returns the frames of a stack.
func parseStack(text string) (frames []Frame) {
	for l := range strings.Lines(strings.TrimSpace(text)) {
		m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if m == nil {
			frames = append(frames, Frame{})
			continue
		}
		offset, _ := strconv.ParseUint(m[2], 16, 64)
		size, _ := strconv.ParseUint(m[3], 16, 64)
		frames = append(frames, Frame{Function: m[1], Offset: offset, Size: size, Module: m[4]})
	}
	return frames
}
