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
	fd   int
	file *os.File
	conn syscall.RawConn
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating an epoll instance: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile takes it for pollable
		return nil, errors.Join(fmt.Errorf("epoll instance: %w", err), unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "epoll")
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &poller{fd: fd, file: file, conn: conn}, nil
}

// add makes wait return when fd is ready to be read. When fd is closed, it is
// removed by the kernel.
func (p *poller) add(fd int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("adding to an epoll instance: %w", err)
	}
	return nil
}

// wait returns nil when a file is ready or the deadline has passed, the error of
// ctx when that is done, and os.ErrClosed after close, which may be called
// meanwhile.
func (p *poller) wait(ctx context.Context, deadline time.Time) error {
	stop := context.AfterFunc(ctx, func() { _ = p.file.SetReadDeadline(time.Now()) }) // fails if closed
	defer stop()
	if err := p.file.SetReadDeadline(deadline); err != nil {
		return closedError(err)
	}
	if ctx.Err() != nil { // its deadline may have been overwritten
		return ctx.Err()
	}
	var waitErr error
	err := p.conn.Read(func(fd uintptr) bool {
		var events [8]unix.EpollEvent
		n, err := unix.EpollWait(int(fd), events[:], 0)
		if errors.Is(err, unix.EINTR) {
			return false
		}
		waitErr = err
		return n != 0 || err != nil
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
