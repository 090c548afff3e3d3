package uevent

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Wait waits until Poll has something to return. Its errors are that of ctx, and os.ErrClosed
// or another if the Conn is closed. Poll may be called meanwhile, but not Receive.
func (c *Conn) Wait(ctx context.Context) error {
	conn, err := c.socket.SyscallConn()
	if err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = c.socket.SetReadDeadline(time.Unix(1, 0)) // it fails if the Conn is closed: then nothing waits
	})
	err = conn.Read(func(fd uintptr) (ready bool) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 && err == nil
	})
	if !stop() {
		<-interrupted
		err = errors.Join(err, c.socket.SetReadDeadline(time.Time{}))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return err
}
