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
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	var o options
	names := flag.String("kernel", "6.1,6.12", "kernels, separated by commas: "+kernelNames())
	flag.StringVar(&o.run, "run", "", "run only tests that match, as go test has it")
	flag.BoolVar(&o.verbose, "v", false, "print what each test says, not only those that fail")
	flag.StringVar(&o.collector, "collector", "", "the built collector")
	flag.StringVar(&o.dir, "cache", defaultCache(), "directory for kernels and test binaries")
	flag.StringVar(&o.env, "env", "", "a variable of the environment of the tests, NAME=VALUE")
	flag.DurationVar(&o.timeout, "timeout", 15*time.Minute, "for the tests in one kernel")
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
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "kernelsym-vm")
}

func run(ctx context.Context, o options) error {
	err := install(ctx)
	if errors.Is(err, errCannotInstall) {
		fmt.Printf("SKIP: %v: not tested in kernels %s: loadable modules, and all kernels but this machine's\n",
			err, strings.Join(o.kernels, ", "))
		return nil
	}
	if err != nil {
		return err
	}
	tests, err := buildTests(ctx, o)
	if err != nil {
		return err
	}
	var failed []string
	for _, name := range o.kernels {
		if err := runKernel(ctx, o, name, tests); err != nil {
			fmt.Printf("FAIL\tkernel %s: %v\n", name, err)
			failed = append(failed, name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("tests failed in kernels %s", strings.Join(failed, ", "))
	}
	return nil
}

// runKernel runs the tests in one kernel. A machine that does not boot is
// started once more; a test that fails is not.
func runKernel(ctx context.Context, o options, name string, tests *testTree) error {
	k, err := getKernel(ctx, o.dir, name)
	if err != nil {
		return err
	}
	initrd := filepath.Join(o.dir, "initrd-"+name)
	if err := writeInitrd(initrd, k, tests, o); err != nil {
		return err
	}
	for try := 1; ; try++ {
		fmt.Printf("=== kernel %s (%s)\n", name, k.release)
		err := boot(ctx, k, initrd, o.timeout)
		if !errors.Is(err, errNotBooted) || try == 2 {
			return err
		}
		fmt.Printf("=== kernel %s did not boot; once more\n", name)
	}
}

// follow prints what the tests in the machine print, until they are done. It
// reports what the first process says of itself.
func follow(lines *bufio.Scanner, booted func()) (done, ok bool) {
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		switch {
		case line == markBooted:
			booted()
		case strings.HasPrefix(line, markDone):
			return true, line == markDone+"ok"
		default:
			fmt.Println(line)
		}
	}
	return false, false
}

// What the first process of the machine says; see init/main.go.
const (
	markBooted = "vm: booted"
	markDone   = "vm: done: "
)
