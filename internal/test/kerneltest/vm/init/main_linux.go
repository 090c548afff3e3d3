// SPDX-License-Identifier: Apache-2.0

// Command init is the first process of a machine that `make test-vm` starts. It asks for packages
// on the second serial port, one after the other, runs their tests, and prints the output of the
// tests on that port.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if path.Base(os.Args[0]) == "true" {
		return // the machine's /bin/true
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this switches the machine off; it is for virtual machines")
		os.Exit(1)
	}
	ok, err := run()
	if err != nil {
		fmt.Println("init:", err)
	}
	result := "failed"
	if ok && err == nil {
		result = "ok"
	}
	fmt.Println("vm: done: " + result)
	time.Sleep(time.Second) // until the port has sent everything
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() (ok bool, err error) {
	if err := mount(); err != nil {
		return false, err
	}
	port, err := os.OpenFile(os.Getenv("KERNELSYM_PORT"), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false, err
	}
	os.Stdout = port
	if err := errors.Join(withoutEcho(port), loopbackUp(), limits()); err != nil {
		return false, err
	}
	args, err := os.ReadFile("/args")
	if err != nil {
		return false, err
	}
	env, err := os.ReadFile("/env")
	if err != nil {
		return false, err
	}
	ok = true
	for answers := bufio.NewReader(port); ; {
		fmt.Println("vm: next")
		line, err := answers.ReadString('\n')
		pkg := strings.TrimSpace(line)
		if err != nil || pkg == "" {
			return ok, err
		}
		if !runTests(pkg, strings.Fields(string(args)), strings.Fields(string(env))) {
			ok = false
		}
	}
}

// withoutEcho keeps the port from sending back what it receives.
func withoutEcho(port *os.File) error {
	settings, err := unix.IoctlGetTermios(int(port.Fd()), unix.TCGETS)
	if err != nil {
		return err
	}
	settings.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(int(port.Fd()), unix.TCSETS, settings)
}

// runTests runs the tests of a package, and ends with a result line as go test does.
func runTests(pkg string, args, env []string) bool {
	start := time.Now()
	cmd := exec.Command("./test", args...) //nolint:noctx // the machine ends with its tests
	cmd.Dir = path.Join("/src", pkg)
	cmd.Env = append([]string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp", "GOTRACEBACK=all"}, env...)
	if _, err := os.Stat("/bin/otelcol"); err == nil {
		cmd.Env = append(cmd.Env, "KERNELSYM_COLLECTOR=/bin/otelcol")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Minute // for processes that it started and did not end
	err := cmd.Run()
	seconds := time.Since(start).Seconds()
	all := err != nil || slices.Contains(args, "-test.v=true")
	for line := range strings.Lines(out.String()) {
		if all || strings.HasPrefix(line, "bench ") {
			fmt.Print(line)
		}
	}
	if err != nil {
		fmt.Printf("%v\nFAIL\t%s\t%.3fs\n", err, pkg, seconds)
		return false
	}
	fmt.Printf("ok  \t%s\t%.3fs\n", pkg, seconds)
	return true
}

func mount() error {
	for _, m := range []struct{ what, where string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tracefs", "/sys/kernel/tracing"},
		{"securityfs", "/sys/kernel/security"},
	} {
		if err := os.MkdirAll(m.where, 0o755); err != nil && !errors.Is(err, os.ErrPermission) {
			return err
		}
		if err := unix.Mount(m.what, m.where, m.what, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mounting %s: %w", m.where, err)
		}
	}
	return os.Chmod("/tmp", 0o1777)
}

// loopbackUp switches the loopback interface on.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// limits allows root, and no other user, to see addresses.
func limits() error {
	return errors.Join(
		os.WriteFile("/proc/sys/kernel/kptr_restrict", []byte("1"), 0),
		os.WriteFile("/proc/sys/kernel/perf_event_paranoid", []byte("2"), 0),
		syscall.Sethostname([]byte("vm")),
	)
}
