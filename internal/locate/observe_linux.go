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

// waitFor is how long each wait takes, and lookEvery the time between two looks at it.
const (
	waitFor   = 50 * time.Millisecond
	lookEvery = 5 * time.Millisecond
)

// observe makes waits in a thread of its own. It returns each wait for which addresses and names certainly belong together.
// It takes a quarter of a second. procfs is where /proc is mounted. The error says why the stacks of the thread cannot be
// sampled.
func observe(ctx context.Context, procfs string) ([]Wait, error) {
	var f files
	var err error
	opened, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		f, err = openFiles(procfs)
		close(opened)
		if err == nil {
			makeWaits(ctx)
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
func makeWaits(ctx context.Context) {
	for _, wait := range []func() error{nanosleep, poll, epoll, readTimer, func() error { time.Sleep(waitFor); return nil }} {
		if ctx.Err() == nil {
			_ = wait()
		}
	}
}

func nanosleep() error {
	t := unix.NsecToTimespec(int64(waitFor))
	return unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil)
}

func poll() error {
	t := unix.NsecToTimespec(int64(waitFor))
	_, err := unix.Ppoll(nil, &t, nil)
	return err
}

func epoll() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	_, err = unix.EpollWait(fd, make([]unix.EpollEvent, 1), int(waitFor.Milliseconds()))
	return errors.Join(err, unix.Close(fd))
}

func readTimer() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return err
	}
	err = unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(waitFor))}, nil)
	if err == nil {
		_, err = unix.Read(fd, make([]byte, 8))
	}
	return errors.Join(err, unix.Close(fd))
}
