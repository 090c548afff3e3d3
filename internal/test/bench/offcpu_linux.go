// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
)

// benchOffCPU measures what it costs to record context switches: for the threads that switch, and for the process that reads
// the records. Two threads strictly alternate on one CPU, with and without recording in turn.
func benchOffCPU(rounds int) error {
	var slowdown, reading []float64
	for range max(1, rounds/6) {
		free, _, err := alternate(time.Second)
		if err != nil {
			return err
		}
		recorded, cost, err := alternateRecorded(time.Second)
		if err != nil {
			return err
		}
		slowdown = append(slowdown, recorded.Seconds()/free.Seconds())
		reading = append(reading, cost.Seconds()/free.Seconds())
	}
	slices.Sort(slowdown)
	slices.Sort(reading)
	report("offcpu_switch_vs_free", slowdown[len(slowdown)/2])
	report("offcpu_reading_vs_switch", reading[len(reading)/2])
	return nil
}

// alternateRecorded is alternate while off-CPU time is sampled. It also returns the CPU time that sampling took for each
// switch of the machine.
func alternateRecorded(d time.Duration) (each, cost time.Duration, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error, 1)
	switches := 0
	sampler := kernelstack.Sampler{
		Options: kernelstack.Options{
			Threads: kernelstack.Waiting{Threshold: time.Millisecond, MaxSwitches: 1 << 30}, Buffer: 1 << 20,
			Interval: time.Hour, MaxSamples: 20_000, Procfs: "/proc", Sysfs: "/sys",
		},
		Started: func(string, kernelstack.Missing) { close(started) },
		Send:    func(_ context.Context, m *kernelstack.Message) { switches += m.Short + m.Samples },
	}
	go func() { ended <- sampler.Run(ctx) }()
	select {
	case <-started:
	case err := <-ended:
		cancel()
		return 0, 0, err
	}
	time.Sleep(100 * time.Millisecond) // until it has read the names of threads
	before := cpu()
	each, worked, err := alternate(d)
	used := cpu() - before - worked
	cancel()
	if sampled := <-ended; !errors.Is(sampled, context.Canceled) {
		err = errors.Join(err, sampled)
	}
	return each, used / time.Duration(max(switches, 1)), err
}

// alternate has two threads wake each other on one CPU for a time. It returns how long a switch takes, and the CPU time of
// the two threads.
func alternate(d time.Duration) (each, worked time.Duration, err error) {
	there, toThere, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	back, toBack, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	errs := make(chan error, 2)
	turns := 0
	var times [2]time.Duration
	go func() {
		errs <- onLastCPU(&times[0], func() error {
			b := []byte{1}
			for begin := time.Now(); time.Since(begin) < d; turns++ {
				if err := pass(int(toThere.Fd()), int(back.Fd()), b); err != nil {
					return err
				}
			}
			return toThere.Close()
		})
	}()
	go func() {
		errs <- onLastCPU(&times[1], func() error { return echo(int(there.Fd()), int(toBack.Fd())) })
	}()
	err = errors.Join(<-errs, <-errs, there.Close(), back.Close(), toBack.Close())
	return d / time.Duration(max(2*turns, 1)), times[0] + times[1], err
}

// pass writes a byte to one pipe and waits for one from another.
func pass(to, from int, b []byte) error {
	if _, err := unix.Write(to, b); err != nil {
		return err
	}
	_, err := unix.Read(from, b)
	return err
}

// echo passes the bytes of one pipe on to another, until the other end of the first is closed.
func echo(from, to int) error {
	b := []byte{1}
	for {
		if n, err := unix.Read(from, b); n == 0 || err != nil {
			return err
		}
		if _, err := unix.Write(to, b); err != nil {
			return err
		}
	}
}

// onLastCPU runs a function on a thread of its own on the last CPU, and notes the CPU time of that thread.
func onLastCPU(took *time.Duration, work func() error) error {
	return onCPU(runtime.NumCPU()-1, func() error {
		before := thread()
		err := work()
		*took = thread() - before
		return err
	})
}

// onCPU runs a function on a thread of its own on a CPU.
func onCPU(n int, work func() error) error {
	runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
	var only unix.CPUSet
	only.Set(n)
	return errors.Join(unix.SchedSetaffinity(0, &only), work())
}
