// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Storms lists what a user without rights can do without end: give a thread a name, and make and end processes and threads.
// With a directory of a cgroup that the user owns, it can make and remove cgroups, which is StormOfCgroups.
var Storms = []string{"rename", "fork", "vfork", "thread"}

// StormOfCgroups is a storm in a directory.
const StormOfCgroups = "mkdir"

// Nobody is the user who makes storms.
const Nobody = 65534

// The environment of a process that makes a storm.
const (
	stormEnv    = "KERNELSYM_TEST_STORM"
	stormDirEnv = "KERNELSYM_TEST_STORM_DIR"
)

// StormName begins the names of the threads that a storm of names renames.
const StormName = "storm"

func init() {
	if kind := os.Getenv(stormEnv); kind != "" {
		fmt.Println(storm(kind, os.Getenv(stormDirEnv)))
		os.Exit(0)
	}
}

// StartStorm has a process of Nobody do one thing on one CPU as often as it can. dir is for StormOfCgroups. The returned
// function ends the storm, and returns how often it was done. It needs root.
func StartStorm(t testing.TB, kind, dir string) (end func() int) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user: storms are not tested")
	}
	cmd := exec.CommandContext(t.Context(), Shared(t, "/proc/self/exe"))
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), stormEnv+"="+kind, stormDirEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Nobody, Gid: Nobody}}
	var out, diagnosis bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	stop, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("starting a storm: %v", err)
	}
	return func() int {
		t.Helper()
		_ = stop.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("storm %q: %v\n%s", kind, err, diagnosis.String())
		}
		n, err := strconv.Atoi(strings.TrimSpace(out.String()))
		if err != nil || n == 0 {
			t.Fatalf("storm %q: %q\n%s", kind, out.String(), diagnosis.String())
		}
		return n
	}
}

// storm does one thing until its standard input ends, and returns how often.
func storm(kind, dir string) (n int) {
	once := map[string]func(n int) error{
		"rename":       renameThread,
		"fork":         func(int) error { return forkProcess() },
		"vfork":        func(int) error { return exec.Command("/bin/true").Run() }, //nolint:noctx // it ends at once
		"thread":       func(int) error { return makeThread() },
		StormOfCgroups: func(n int) error { return makeCgroup(filepath.Join(dir, fmt.Sprint("storm", n))) },
	}[kind]
	runtime.LockOSThread()
	var one unix.CPUSet
	one.Set(runtime.NumCPU() - 1)
	err := unix.SchedSetaffinity(0, &one)
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	for ; err == nil && !ended.Load(); n++ {
		err = once(n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return n
}

func renameThread(n int) error {
	name := []byte(StormName + strconv.Itoa(n%10) + "\x00")
	err := unix.Prctl(unix.PR_SET_NAME, reflect.ValueOf(&name[0]).Pointer(), 0, 0, 0)
	runtime.KeepAlive(name)
	return err
}

// forkProcess makes a process that ends at once, and waits for it.
func forkProcess() error {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	for pid == 0 { // the new process, which has one thread and must not return to Go's scheduler
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

// makeThread makes a thread that ends at once, and waits for it.
func makeThread() error {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		close(done)
	}()
	<-done
	return nil
}

func makeCgroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Remove(dir)
}
