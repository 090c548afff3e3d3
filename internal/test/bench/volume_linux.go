// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// benchVolume measures how many bytes waits take, named and compressed as an exporter sends them. 30 threads sleep for 20 ms at
// a time, and ten pairs of threads pass a byte to and fro, with a pause of 20 ms. All other threads of the machine are sampled,
// too.
func benchVolume(core *timeline.Image) error {
	const during = 20 * time.Second
	for _, how := range []string{"each", "sum"} {
		waits, bytes, err := volume(core, how == "sum", during)
		if err != nil {
			return err
		}
		report("offcpu_"+how+"_waits_per_s", float64(waits)/during.Seconds())
		report("offcpu_"+how+"_bytes_per_wait", float64(bytes)/float64(max(waits, 1)))
		report("offcpu_"+how+"_mb_per_day", float64(bytes)/1e6/during.Hours()*24)
	}
	return nil
}

// volume returns the number of waits in messages of 5 s, and the size of these.
func volume(core *timeline.Image, sum bool, d time.Duration) (waits, bytes int, err error) {
	snapshot, rewriter := timeline.NewSnapshot(timeline.NewTable(core)), rewrite.New(options)
	known := rewrite.Sources{Snapshot: func() *timeline.Snapshot { return snapshot }}
	sampler := kernelstack.Sampler{
		Options: kernelstack.Options{
			Threads: kernelstack.Waiting{Threshold: time.Millisecond, MaxSwitches: 50_000, Sum: sum}, Buffer: 1 << 20,
			Interval: 5 * time.Second, MaxSamples: 20_000, Procfs: "/proc", Sysfs: "/sys",
		},
		Started: func(string, kernelstack.Missing) {},
		Send: func(_ context.Context, m *kernelstack.Message) {
			waits += m.Waits
			for _, pd := range m.Profiles {
				var n int
				n, err = compressed(rewriter.Rewrite(pd, known).Profiles)
				bytes += n
			}
		},
	}
	stop, wait, loadErr := waitingThreads()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if sampled := sampler.Run(ctx); !errors.Is(sampled, context.DeadlineExceeded) {
		err = errors.Join(err, sampled)
	}
	close(stop)
	wait()
	return waits, bytes, errors.Join(err, loadErr)
}

// compressed returns the size of a message with gzip.
func compressed(pd pprofile.Profiles) (int, error) {
	wire, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(pd)
	if err != nil {
		return 0, err
	}
	var n counter
	z := gzip.NewWriter(&n)
	_, err = z.Write(wire)
	return int(n), errors.Join(err, z.Close())
}

// counter counts what is written.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// waitingThreads starts the threads of benchVolume, which run until stop is closed.
func waitingThreads() (stop chan struct{}, wait func(), err error) {
	stop = make(chan struct{})
	var all sync.WaitGroup
	start := func(work func()) {
		all.Go(func() {
			runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
			for {
				select {
				case <-stop:
					return
				default:
					work()
				}
			}
		})
	}
	sleep := func() {
		pause := unix.NsecToTimespec(int64(20 * time.Millisecond))
		_ = unix.Nanosleep(&pause, nil) // a signal ends it early
	}
	for range 30 {
		start(sleep)
	}
	var ends []*os.File
	for range 10 {
		there, toThere, thereErr := os.Pipe()
		back, toBack, backErr := os.Pipe()
		if err = errors.Join(thereErr, backErr); err != nil {
			return stop, all.Wait, err
		}
		ends = append(ends, toThere)
		start(func() {
			sleep()
			_ = pass(int(toThere.Fd()), int(back.Fd()), []byte{1})
		})
		go func() {
			runtime.LockOSThread()
			b := []byte{1}
			for {
				if n, err := unix.Read(int(there.Fd()), b); n == 0 && err == nil {
					return // the other end is closed
				}
				_, _ = unix.Write(int(toBack.Fd()), b)
			}
		}()
	}
	wait = func() {
		all.Wait()
		for _, end := range ends {
			_ = end.Close()
		}
	}
	return stop, wait, nil
}
