// SPDX-License-Identifier: Apache-2.0

// Command demo implements `make run`: it runs the collector on this machine's own kernel stacks for
// some seconds while it keeps the kernel busy, and shows the functions in which the kernel spent
// its time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kernelload"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// options are the options of the command line.
type options struct {
	collector, config, tool string // files
	output                  string // file that the collector writes
	duration                time.Duration
	checkOnly               bool
	stdout                  io.Writer
}

func main() {
	var o options
	flag.StringVar(&o.collector, "collector", "build/otelcol-kernelsym", "the collector")
	flag.StringVar(&o.config, "config", "deploy/examples/local.yaml", "its configuration, which takes the output from KERNELSYM_FILE")
	flag.StringVar(&o.tool, "tool", "build/kernelsym", "the operator's tool")
	flag.StringVar(&o.output, "output", "build/run/profiles.json", "file for the profiles")
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "how long to sample")
	flag.BoolVar(&o.checkOnly, "check", false, "only check whether the kernel can be sampled")
	flag.Parse()
	o.stdout = os.Stdout
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\n"+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if err := check(ctx); err != nil {
		hint := "Run it as root: make run does, by sudo."
		if os.Geteuid() == 0 {
			hint = "Root is not enough here: in a container, the rights depend on what started it."
		}
		return fmt.Errorf("The kernel cannot be sampled:\n\n%w\n\n%s", err, hint) //nolint:staticcheck // a text for a person
	}
	if o.checkOnly {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(o.output), 0o755); err != nil {
		return err
	}
	if err := collect(ctx, o); err != nil {
		return err
	}
	fmt.Fprintln(o.stdout)
	// An interrupt ends the sampling; what was collected by then can be shown.
	top := exec.CommandContext(context.WithoutCancel(ctx), o.tool, "top", o.output)
	top.Stdout, top.Stderr = o.stdout, os.Stderr
	if err := top.Run(); err != nil {
		return err
	}
	fmt.Fprintf(o.stdout, "\nThe profiles are in %s. To look at their flame graph: make view\n", o.output)
	return nil
}

// check returns an error for everything that is missing to sample the kernel and to read its
// symbols.
func check(ctx context.Context) error {
	_, symbols := symcache.Load(ctx, kallsyms.NewSource("/proc", "/sys", nil))
	rings, perf := perfring.Open(perfring.Options{
		Event: perfring.Sampling{Frequency: 1}, BytesPerCPU: 1, SysFS: "/sys",
	})
	if perf == nil {
		perf = rings.Close()
	}
	return errors.Join(symbols, perf)
}

// grace is the time that the collector has to end after it is asked to.
const grace = time.Minute

// collect runs the collector while it generates load.
func collect(ctx context.Context, o options) error {
	log, err := os.Create(o.output + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(o.stdout, "Sampling the kernel for %s, with file reads, pipes and a socket to keep it busy ...\n", o.duration)
	ctx, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	collector := exec.CommandContext(ctx, o.collector, otelcol.FeatureGates, "--config", o.config)
	collector.Env = append(os.Environ(), "KERNELSYM_FILE="+o.output)
	collector.Stdout, collector.Stderr = log, log
	collector.Cancel = func() error { return collector.Process.Signal(os.Interrupt) } // it writes what it still has
	collector.WaitDelay = grace
	if err := collector.Start(); err != nil {
		return err
	}
	load := make(chan error, 1)
	go func() { load <- kernelload.Run(ctx, 1) }()
	err = collector.Wait()
	early := ctx.Err() == nil
	cancel()
	if loadErr := <-load; loadErr != nil {
		fmt.Fprintln(os.Stderr, "Some of the load failed:", loadErr)
	}
	switch {
	case early:
		return fmt.Errorf("%w (%w); it says why in %s", errEnded, err, log.Name())
	case err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the collector failed: %w; it says why in %s", err, log.Name())
	}
	return nil
}

var errEnded = errors.New("the collector ended early")
