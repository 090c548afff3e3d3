package perfring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits until one of many files is ready, without a thread: it is an
// epoll instance that Go's own poller waits for.
type poller struct {
	file *os.File
	conn syscall.RawConn
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating an epoll instance: %w", filesError(err))
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile takes it for pollable
		return nil, errors.Join(fmt.Errorf("epoll instance: %w", err), unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "epoll")
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &poller{file: file, conn: conn}, nil
}

// add makes wait return when fd is ready to be read. When fd is closed, it is
// removed by the kernel.
func (p *poller) add(fd int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	var addErr error
	err := p.conn.Control(func(epoll uintptr) {
		addErr = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, fd, &event)
	})
	if err != nil {
		return closedError(err)
	}
	if addErr != nil {
		return fmt.Errorf("adding to an epoll instance: %w", addErr)
	}
	return nil
}

// wait returns nil when a file became ready, ready says so, or the deadline has
// passed; the error of ctx when that is done, and os.ErrClosed after close, which
// may be called meanwhile. That a file became ready between two calls goes
// unnoticed: ready has to tell.
func (p *poller) wait(ctx context.Context, deadline time.Time, ready func() bool) error {
	stop := context.AfterFunc(ctx, func() { _ = p.file.SetReadDeadline(time.Now()) }) // fails if closed
	defer stop()
	if err := p.file.SetReadDeadline(deadline); err != nil {
		return closedError(err)
	}
	if ctx.Err() != nil { // its deadline may have been overwritten
		return ctx.Err()
	}
	// A ring says only once that it has become ready (perf_poll in
	// kernel/events/core.c), and Go's poller is who it says it to: asked here, it
	// denies it. So what counts is to be called again, after waiting. What it said
	// before this call is forgotten, so the first time the rings themselves are
	// looked at; what comes after that look is not forgotten.
	waited := false
	var waitErr error
	err := p.conn.Read(func(fd uintptr) bool {
		var events [8]unix.EpollEvent
		n, err := unix.EpollWait(int(fd), events[:], 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			waitErr = err
			return true
		}
		enough := n > 0 || waited || ready()
		waited = true
		return enough
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	case err != nil:
		return closedError(err)
	}
	return waitErr
}

// closedError makes the internal error of a file that is closed while it is
// waited for the documented one.
func closedError(err error) error {
	if errors.Is(err, os.ErrClosed) || err.Error() == "use of closed file" {
		return os.ErrClosed
	}
	return err
}

func (p *poller) close() error { return p.file.Close() }
