// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// Each wait takes as long as the shortest, or longer, up to the longest. lookEvery is the time between two looks at it.
const (
	shortest, longest = 50 * time.Millisecond, 800 * time.Millisecond
	lookEvery         = 5 * time.Millisecond
)

// observe makes waits in a thread of its own. It returns each wait for which addresses and names certainly belong together.
// It takes a quarter of a second, or up to five seconds on a machine so busy that most waits are over before they are
// looked at. procfs is where /proc is mounted. The error says why the stacks of the thread cannot be sampled.
func observe(ctx context.Context, procfs string) ([]Wait, error) {
	for waitFor := shortest; ; waitFor *= 4 {
		waits, err := observeFor(ctx, procfs, waitFor)
		if err != nil || len(waits) >= minFunctions || waitFor >= longest {
			return waits, err
		}
	}
}

// observeFor is observe with waits of one length.
func observeFor(ctx context.Context, procfs string, waitFor time.Duration) ([]Wait, error) {
	var f files
	var err error
	opened, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		f, err = openFiles(procfs)
		close(opened)
		if err == nil {
			makeWaits(ctx, waitFor)
		}
	}()
	<-opened
	if err != nil {
		<-ended
		return nil, err
	}
	defer f.close()
	w := witness{switches: f.switches, wchan: f.wchan, stack: f.stack}
	for {
		select {
		case <-ended:
			return w.waits, ctx.Err()
		case <-time.After(lookEvery):
			w.look()
		}
	}
}

// files describe a thread.
type files struct {
	switches     *perfring.Thread
	wchan, stack *os.File // nil if it cannot be opened; reading it fails then
}

// openFiles opens the files of the calling thread, which other threads can read. A number of the thread would mean nothing
// to a /proc of another PID namespace, but thread-self leads to the thread that opens it.
func openFiles(procfs string) (f files, err error) {
	f.switches, err = perfring.OpenThread()
	if err != nil {
		return files{}, err
	}
	f.wchan, _ = os.Open(filepath.Join(procfs, "thread-self/wchan"))
	f.stack, _ = os.Open(filepath.Join(procfs, "thread-self/stack"))
	return f, nil
}

func (f *files) close() {
	_, _, _ = f.wchan.Close(), f.stack.Close(), f.switches.Close() // nothing was written to them
}

// makeWaits waits in different functions of the kernel, one after the other. A wait that the kernel refuses is left out. The
// goroutine is locked to its thread, so while it sleeps, the thread waits for a futex.
func makeWaits(ctx context.Context, each time.Duration) {
	sleep := func(each time.Duration) error { time.Sleep(each); return nil }
	for _, wait := range []func(time.Duration) error{nanosleep, poll, epoll, readTimer, sleep} {
		if ctx.Err() == nil {
			_ = wait(each)
		}
	}
}

func nanosleep(each time.Duration) error {
	t := unix.NsecToTimespec(int64(each))
	return unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil)
}

func poll(each time.Duration) error {
	t := unix.NsecToTimespec(int64(each))
	_, err := unix.Ppoll(nil, &t, nil)
	return err
}

func epoll(each time.Duration) error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	_, err = unix.EpollWait(fd, make([]unix.EpollEvent, 1), int(each.Milliseconds()))
	return errors.Join(err, unix.Close(fd))
}

func readTimer(each time.Duration) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return err
	}
	err = unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(each))}, nil)
	if err == nil {
		_, err = unix.Read(fd, make([]byte, 8))
	}
	return errors.Join(err, unix.Close(fd))
}
