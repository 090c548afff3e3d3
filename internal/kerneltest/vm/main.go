// SPDX-License-Identifier: Apache-2.0

// Command vm runs this module's tests inside the kernels of a distribution, in
// virtual machines: the machine that runs the tests may have no modules, and has
// only one kernel. `make test-vm` runs it.
//
// The machine is qemu's, in software: slow, but it runs everywhere. It has no
// disk; its first process is ours, and the tests, the kernel's modules and the
// built collector are files of its memory. What the tests print comes over a
// serial port.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/kerneltest/debian"
)

func main() {
	var o options
	names := flag.String("kernel", "6.1,6.12", "kernels, separated by commas: "+debian.KernelNames())
	flag.StringVar(&o.run, "run", "", "run only tests that match, as go test has it")
	flag.BoolVar(&o.verbose, "v", false, "print what each test says, not only those that fail")
	flag.StringVar(&o.collector, "collector", "", "the built collector")
	flag.StringVar(&o.dir, "cache", defaultCache(), "directory for kernels and test binaries")
	flag.StringVar(&o.env, "env", "", "a variable of the environment of the tests, NAME=VALUE")
	flag.StringVar(&o.packs, "packs", "", "directory with packs, which the tests find by "+kerneltest.PacksEnv)
	flag.StringVar(&o.out, "out", "", "directory for the files that tests hand out")
	flag.StringVar(&o.append, "append", "", "what to add to the kernels' command line")
	flag.IntVar(&o.boots, "boots", 1, "how often each kernel is booted; what tests say to be the same, or another, in each boot is compared")
	flag.DurationVar(&o.timeout, "timeout", 40*time.Minute, "for the tests in one kernel")
	flag.Parse()
	o.packages = flag.Args()
	o.kernels = strings.Split(*names, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	kernels   []string
	packages  []string // patterns of go list, all by default
	run       string
	verbose   bool
	collector string
	dir       string
	timeout   time.Duration
	env       string
	append    string
	boots     int
	packs     string
	out       string
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "kernelsym-vm")
}

func run(ctx context.Context, o options) error {
	err := install(ctx, o.kernels)
	if errors.Is(err, errCannotInstall) {
		fmt.Printf("SKIP: %v: not tested in kernels %s: loadable modules, and all kernels but this machine's\n",
			err, strings.Join(o.kernels, ", "))
		return nil
	}
	if err != nil {
		return err
	}
	tests := make(map[string]*testTree) // by architecture
	for _, name := range o.kernels {
		arch := debian.Kernels[name].Arch
		if _, built := tests[arch]; built || arch == "" {
			continue
		}
		if tests[arch], err = buildTests(ctx, o, arch); err != nil {
			return err
		}
	}
	// A machine keeps one CPU busy, so several run at a time. What they print comes
	// one after the other.
	var failed []string
	free := make(chan struct{}, runtime.NumCPU())
	machines := make([]machine, len(o.kernels))
	for i, name := range o.kernels {
		m := &machines[i]
		m.ended = make(chan error, 1)
		k, initrd, err := prepare(ctx, o, name, tests)
		if err != nil {
			m.ended <- err
			continue
		}
		go func() {
			free <- struct{}{}
			defer func() { <-free }()
			m.ended <- m.runAll(ctx, name, k, initrd, o)
		}()
	}
	for i, name := range o.kernels {
		machines[i].printNow()
		if err := <-machines[i].ended; err != nil {
			fmt.Printf("FAIL\tkernel %s: %v\n", name, err)
			failed = append(failed, name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("tests failed in kernels %s", strings.Join(failed, ", "))
	}
	return nil
}

// prepare gets a kernel and makes what it boots with.
func prepare(ctx context.Context, o options, name string, tests map[string]*testTree) (k *kernel, initrd string, err error) {
	k, err = getKernel(ctx, o.dir, name)
	if err != nil {
		return nil, "", err
	}
	initrd = filepath.Join(o.dir, "initrd-"+name)
	return k, initrd, writeInitrd(initrd, k, tests[k.arch], o)
}

// machine runs the tests in one kernel.
type machine struct {
	ended chan error

	mu      sync.Mutex
	now     bool         // what it prints is to be seen at once
	printed bytes.Buffer // until then
}

// Write prints, or keeps for later.
func (m *machine) Write(text []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now {
		return os.Stdout.Write(text)
	}
	return m.printed.Write(text)
}

// printNow prints what was kept, and what comes at once.
func (m *machine) printNow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = true
	_, _ = m.printed.WriteTo(os.Stdout)
}

// runAll runs the machine for each boot, and compares them.
func (m *machine) runAll(ctx context.Context, name string, k *kernel, initrd string, o options) error {
	var boots []*record
	for range o.boots {
		r := &record{Writer: m, dir: o.out}
		if err := m.run(ctx, name, k, initrd, o, r); err != nil {
			return err
		}
		if r.err != nil {
			return r.err
		}
		boots = append(boots, r)
	}
	return compare(boots)
}

// run runs the machine. One that does not boot is started once more; a test that
// fails is not.
func (m *machine) run(
	ctx context.Context, name string, k *kernel, initrd string, o options, out io.Writer,
) error {
	for try := 1; ; try++ {
		fmt.Fprintf(m, "=== kernel %s (%s) %s\n", name, k.release, o.append)
		err := boot(ctx, k, initrd, o, out)
		if !errors.Is(err, errNotBooted) || try == 2 {
			return err
		}
		fmt.Fprintf(m, "=== kernel %s did not boot; once more\n", name)
	}
}

// follow prints what the tests in the machine print, until they are done. It
// reports what the first process says of itself.
func follow(lines *bufio.Scanner, out io.Writer, booted func()) (done, ok bool) {
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		switch {
		case line == markBooted:
			booted()
		case strings.HasPrefix(line, markDone):
			return true, line == markDone+"ok"
		default:
			fmt.Fprintln(out, line)
		}
	}
	return false, false
}

// What the first process of the machine says; see init/main.go.
const (
	markBooted = "vm: booted"
	markDone   = "vm: done: "
)
