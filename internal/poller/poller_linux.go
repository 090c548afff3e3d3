// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Poller waits until a file becomes readable, or for a deadline. It takes three files and no
// thread. Only one goroutine may call Wait and Sleep; others may call Add and Close at the same
// time.
type Poller struct {
	outer *os.File        // watched by the runtime
	calls syscall.RawConn // of outer; during its calls no file is closed

	inner, timer int
}

// New returns a Poller without files.
func New() (*Poller, error) {
	outer, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating an epoll instance: %w", err)
	}
	_ = unix.SetNonblock(outer, true) // else the runtime does not watch it, and SetReadDeadline fails
	p := &Poller{outer: os.NewFile(uintptr(outer), "epoll"), inner: -1, timer: -1}
	if err := p.open(outer); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// open opens the other files.
func (p *Poller) open(outer int) (err error) {
	if p.inner, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("creating an epoll instance: %w", err)
	}
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return fmt.Errorf("creating a timer: %w", err)
	}
	if p.calls, err = p.outer.SyscallConn(); err != nil {
		return fmt.Errorf("waiting for an epoll instance: %w", err)
	}
	if err := p.outer.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("waiting for an epoll instance: %w", err)
	}
	return errors.Join(
		control(outer, unix.EPOLL_CTL_ADD, p.inner, 0),
		control(outer, unix.EPOLL_CTL_ADD, p.timer, unix.EPOLLIN))
}

// control changes what an epoll instance watches a file for.
func control(epoll, op, fd int, events uint32) error {
	if err := unix.EpollCtl(epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("changing an epoll instance: %w", err)
	}
	return nil
}

// Add makes Wait return when a file becomes readable. When the file is closed, the kernel
// removes it.
func (p *Poller) Add(fd int) error {
	var err error
	closed := p.calls.Control(func(uintptr) {
		err = control(p.inner, unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLET)
	})
	if closed != nil {
		return os.ErrClosed
	}
	return err
}

// Wait waits until a file becomes readable, or for the deadline. If ready returns true, it does
// not wait. It can return early. It calls ready once, when events can no longer be missed.
// ready must find out whether a file was readable before. Wait returns the error of ctx if ctx
// is done, and os.ErrClosed after Close, even if this happens while it waits.
func (p *Poller) Wait(ctx context.Context, deadline time.Time, ready func() bool) error {
	return p.wait(ctx, deadline, func(outer int) (done bool, err error) {
		p.forget()
		err = control(outer, unix.EPOLL_CTL_MOD, p.inner, unix.EPOLLIN)
		return err == nil && ready(), err
	})
}

// Sleep waits for the deadline only. It can return early, and returns the same errors as Wait.
func (p *Poller) Sleep(ctx context.Context, deadline time.Time) error {
	return p.wait(ctx, deadline, func(int) (bool, error) { return false, nil })
}

// wait waits for the deadline, and for the files that begin makes the kernel watch.
func (p *Poller) wait(ctx context.Context, deadline time.Time, begin func(outer int) (done bool, err error)) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	left := min(time.Until(deadline), longest)
	release := p.interruptBy(ctx)
	defer release()
	begun := false
	var beginErr error
	err := p.calls.Read(func(outer uintptr) (done bool) {
		if begun || left <= 0 {
			return true
		}
		begun = true
		if beginErr = p.setTimer(left); beginErr == nil {
			done, beginErr = begin(int(outer))
		}
		return done || beginErr != nil
	})
	closed := p.calls.Control(func(outer uintptr) {
		err := control(int(outer), unix.EPOLL_CTL_MOD, p.inner, 0)
		beginErr = errors.Join(beginErr, err, p.setTimer(0))
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case closed != nil, err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return os.ErrClosed
	}
	return beginErr
}

// longest is the longest time for which Wait waits.
const longest = time.Hour

// interruptBy ends waiting when ctx is done, until release is called.
func (p *Poller) interruptBy(ctx context.Context) (release func()) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = p.outer.SetReadDeadline(time.Unix(1, 0)) // it fails after Close: then nothing waits
	})
	return func() {
		if !stop() {
			<-interrupted
			_ = p.outer.SetReadDeadline(time.Time{})
		}
	}
}

// setTimer makes the timer expire after some time, or never if the time is 0.
func (p *Poller) setTimer(after time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after))}
	if err := unix.TimerfdSettime(p.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("setting a timer: %w", err)
	}
	return nil
}

// Close ends Wait and Sleep, waits until they return, and frees the files. A second call does
// nothing.
func (p *Poller) Close() error {
	if err := p.outer.Close(); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		return err
	}
	var errs []error
	for _, fd := range []int{p.inner, p.timer} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}
