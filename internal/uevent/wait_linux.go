package uevent

import "golang.org/x/sys/unix"

// Wait waits until Poll has something to return, or the Conn is closed, which is an error.
// Poll may be called meanwhile.
func (c *Conn) Wait() error {
	conn, err := c.socket.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) (ready bool) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 && err == nil
	})
}
