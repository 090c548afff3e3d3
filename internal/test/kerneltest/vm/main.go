// SPDX-License-Identifier: Apache-2.0

// Command vm runs this module's tests inside the kernels of a distribution, in virtual machines,
// because the machine that runs the tests may have no modules, and has only one kernel. `make
// test-vm` runs it.
//
// qemu emulates the machine in software, which is slow but works everywhere. The machine has no
// disk: its first process is ours, and the tests, the kernel's modules and the built collector are
// files in its memory. The output of the tests comes over a serial port.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest/debian"
)

func main() {
	var o options
	names := flag.String("kernel", "6.1,6.12", "kernels, separated by commas: "+debian.KernelNames())
	briefly := flag.String("brief", "", "more kernels, in which only the tests that match -brief-run run")
	flag.StringVar(&o.briefRun, "brief-run", "", "the tests of what differs from kernel to kernel, as with go test -run")
	flag.StringVar(&o.run, "run", "", "run only the tests that match, as with go test")
	flag.BoolVar(&o.verbose, "v", false, "print the output of each test, not only of tests that fail")
	flag.StringVar(&o.collector, "collector", "", "the built collector")
	flag.StringVar(&o.dir, "cache", defaultCache(), "directory for kernels and test binaries")
	flag.StringVar(&o.env, "env", "", "an environment variable for the tests, NAME=VALUE")
	flag.StringVar(&o.packs, "packs", "", "directory with packs; the tests find them by "+kerneltest.PacksEnv)
	flag.StringVar(&o.out, "out", "", "directory for the files that tests hand out")
	flag.StringVar(&o.append, "append", "", "text to add to the kernels' command line")
	flag.IntVar(&o.boots, "boots", 1, "how often each kernel is booted; compares what tests report to be the same, or different, in each boot")
	flag.DurationVar(&o.timeout, "timeout", 20*time.Minute, "for the tests of one package")
	flag.Parse()
	o.packages = flag.Args()
	o.kernels = strings.Split(*names, ",")
	if *briefly != "" {
		o.brief = strings.Split(*briefly, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(1)
	}
}

// options are the options of the command line.
type options struct {
	kernels   []string
	brief     []string // kernels in which only the tests that match briefRun run
	briefRun  string
	packages  []string // patterns of go list, all by default
	run       string
	verbose   bool
	collector string
	dir       string
	runDir    string // below dir, for this run: others can run at the same time
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
	kernels := slices.Concat(o.kernels, o.brief)
	err := install(ctx, kernels)
	if errors.Is(err, errCannotInstall) {
		fmt.Printf("SKIP: %v: not tested in kernels %s: loadable modules, and all kernels but this machine's\n",
			err, strings.Join(kernels, ", "))
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if o.runDir, err = os.MkdirTemp(o.dir, "run"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(o.runDir) }()
	tests := make(map[string]*testTree) // by architecture
	for _, name := range kernels {
		arch := debian.Kernels[name].Arch
		if _, built := tests[arch]; built || arch == "" {
			continue
		}
		if tests[arch], err = buildTests(ctx, o, arch); err != nil {
			return err
		}
	}
	var jobs []*job
	for i, name := range kernels {
		o := o
		if i >= len(o.kernels) {
			o.run = o.briefRun
		}
		k, initrd, err := prepare(ctx, o, name, tests)
		if err != nil {
			jobs = append(jobs, &job{name: name, err: err, ended: make(chan error, 1)})
			continue
		}
		jobs = append(jobs, newJob(name, k, initrd, tests[k.arch].packages(), o))
	}
	go runAll(ctx, jobs, o)
	var failed []string
	for _, j := range jobs {
		j.printNow()
		if err := <-j.ended; err != nil {
			fmt.Printf("FAIL\tkernel %s: %v\n", j.name, err)
			failed = append(failed, j.name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("tests failed in kernels %s", strings.Join(failed, ", "))
	}
	return nil
}

// prepare gets a kernel and makes the initial RAM disk that it boots with.
func prepare(ctx context.Context, o options, name string, tests map[string]*testTree) (k *kernel, initrd string, err error) {
	k, err = getKernel(ctx, o.dir, name)
	if err != nil {
		return nil, "", err
	}
	initrd = filepath.Join(o.runDir, "initrd-"+name)
	return k, initrd, writeInitrd(initrd, k, tests[k.arch], o)
}
