package perfring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits until one of many files is ready. It takes a thread while it waits: Go's
// own poller would wake one for each file that becomes ready, whether a goroutine waits
// for it or not, and then others. See BenchmarkWakeups.
type poller struct {
	epoll, event int // event is ready when waiting is to end

	waiting     sync.Mutex    // held by wait
	interrupted chan struct{} // closed by interrupt

	mu      sync.Mutex // guards what follows, and that event is open
	closing bool
	closed  bool
}

func newPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating an epoll instance: %w", filesError(err))
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating an event file: %w", filesError(err)), unix.Close(epoll))
	}
	p := &poller{epoll: epoll, event: event, interrupted: make(chan struct{})}
	if err := p.add(event); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// add makes wait return when fd is ready to be read. When fd is closed, it is removed by
// the kernel.
func (p *poller) add(fd int) error {
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("adding to an epoll instance: %w", err)
	}
	return nil
}

// wait returns nil when a file became ready, ready says so, or the deadline has passed;
// the error of ctx when that is done, and os.ErrClosed after interrupt, which may be
// called meanwhile. It can return early.
func (p *poller) wait(ctx context.Context, deadline time.Time, ready func() bool) error {
	// A ring says only once that it has become ready (perf_poll in
	// kernel/events/core.c). What one said before this call is forgotten, so the rings
	// themselves are looked at; what comes after that look is not forgotten.
	return p.block(ctx, deadline, func(timeout int) error {
		var events [64]unix.EpollEvent
		for n := len(events); n == len(events); {
			n, _ = unix.EpollWait(p.epoll, events[:], 0)
		}
		if ready() {
			return nil
		}
		_, err := unix.EpollWait(p.epoll, events[:1], timeout)
		return err
	})
}

// pause waits for the deadline only; its errors are those of wait. It is no system call:
// in one, a thread of the runtime looks every few microseconds whether it lasts.
func (p *poller) pause(ctx context.Context, deadline time.Time) error {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	over := time.NewTimer(time.Until(deadline))
	defer over.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.interrupted:
		return os.ErrClosed
	case <-over.C:
		return nil
	}
}

// block calls wait, which has to return when event is ready or after a timeout in
// milliseconds.
func (p *poller) block(ctx context.Context, deadline time.Time, wait func(timeout int) error) error {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	if p.isClosing() {
		return os.ErrClosed
	}
	var count [8]byte
	_, _ = unix.Read(p.event, count[:]) // a context may have ended after the last call
	if p.isClosing() {
		return os.ErrClosed
	}
	stop := context.AfterFunc(ctx, p.wake)
	defer stop()
	const most = time.Hour
	left := min(time.Until(deadline), most)
	if ctx.Err() != nil || left <= 0 {
		return ctx.Err()
	}
	// Go interrupts system calls with signals; then it is early.
	if err := wait(int((left + time.Millisecond - 1) / time.Millisecond)); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("waiting for perf events: %w", err)
	}
	if p.isClosing() {
		return os.ErrClosed
	}
	return ctx.Err()
}

// wake ends wait, or the next one.
func (p *poller) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // in any byte order
		_, _ = unix.Write(p.event, one[:])     // it fails if it is ready already
	}
}

func (p *poller) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

// interrupt ends wait, and waits for that. After it, wait returns os.ErrClosed.
func (p *poller) interrupt() {
	p.mu.Lock()
	if !p.closing {
		close(p.interrupted)
	}
	p.closing = true
	p.mu.Unlock()
	p.wake()
	p.waiting.Lock()   // it is free when wait has ended
	p.waiting.Unlock() //nolint:staticcheck // it guards nothing after that
}

// close frees the files. wait must not be called without interrupt before it.
func (p *poller) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing, p.closed = true, true
	return errors.Join(unix.Close(p.epoll), unix.Close(p.event))
}
