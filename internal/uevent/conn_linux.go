// SPDX-License-Identifier: Apache-2.0

package uevent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/poller"
)

// A Conn receives events. Only one goroutine at a time may call Wait, and only one Poll; others
// may call Close at the same time.
type Conn struct {
	// socket is blocking, so that the runtime does not watch it: the runtime would wake a
	// thread for each event.
	socket *os.File
	calls  syscall.RawConn
	poller *poller.Poller
	buf    []byte
}

// fromKernel is the group to which the kernel sends; udevd sends to another.
const fromKernel = 1

// Dial begins to receive events. The socket keeps a few hundred of them until they are read.
// Dial needs no privilege, but fails with ErrUnreachable if no events can arrive.
func Dial() (*Conn, error) {
	if err := reachable(); err != nil {
		return nil, err
	}
	p, err := poller.New()
	if err != nil {
		return nil, err
	}
	c := &Conn{poller: p, buf: make([]byte, maxEvent)}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// open opens the socket.
func (c *Conn) open() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return fmt.Errorf("opening a netlink socket for kernel events: %w", err)
	}
	c.socket = os.NewFile(uintptr(fd), "uevent")
	if c.calls, err = c.socket.SyscallConn(); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: fromKernel}); err != nil {
		return fmt.Errorf("subscribing to kernel events: %w", err)
	}
	return c.poller.Add(fd)
}

// firstUserNamespace is the inode of the initial user namespace, PROC_USER_INIT_INO of
// include/linux/proc_ns.h.
const firstUserNamespace = 0xEFFFFFFD

// reachable returns nil if the kernel sends events to this network namespace. uevent_net_init
// in lib/kobject_uevent.c leaves out network namespaces that the initial user namespace does
// not own, although a socket can be bound there.
func reachable() error {
	net, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer net.Close()
	// It fails with EPERM if the owner is neither this user namespace nor one below it. The
	// owner may then be the initial user namespace, but that cannot be found out.
	owner, err := unix.IoctlRetInt(int(net.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return fmt.Errorf("%w: asking for the owner of the network namespace: %w", ErrUnreachable, err)
	}
	defer unix.Close(owner) //nolint:errcheck // nothing was written
	var stat unix.Stat_t
	if err := unix.Fstat(owner, &stat); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if stat.Ino != firstUserNamespace {
		return ErrUnreachable
	}
	return nil
}

// Wait waits until Poll has something to return, or for the deadline. It can return early. It
// returns the error of ctx if ctx is done, and os.ErrClosed if the Conn is closed.
func (c *Conn) Wait(ctx context.Context, deadline time.Time) error {
	return c.poller.Wait(ctx, deadline, func() (ready bool) {
		err := c.calls.Control(func(fd uintptr) { ready = poller.IsReady(int(fd)) })
		return ready || err != nil
	})
}

// Poll returns the next event. It reports false if the socket was empty at an instant during
// the call: every event sent before that instant has been received, but other events may have
// been sent since. It can be called again after ErrLost, and after errors that wrap ErrSyntax.
// All other errors come from the socket.
func (c *Conn) Poll() (e Event, ok bool, err error) {
	controlErr := c.calls.Control(func(fd uintptr) {
		for !ok && err == nil && poller.IsReady(int(fd)) { // cheaper than trying
			var n int
			var from unix.Sockaddr
			n, from, err = unix.Recvfrom(int(fd), c.buf, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EINTR) {
				err = nil
				continue
			}
			e, ok, err = c.event(n, from, err)
		}
	})
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	return e, ok, errors.Join(controlErr, err)
}

// event makes an event from a received message. It reports false if the message was not an
// event from the kernel.
func (c *Conn) event(n int, from unix.Sockaddr, err error) (Event, bool, error) {
	if errors.Is(err, unix.ENOBUFS) {
		return Event{}, false, ErrLost
	}
	if err != nil {
		return Event{}, false, err
	}
	if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
		return Event{}, false, nil // from a process, which can send anything
	}
	e, err := parse(c.buf[:n])
	return e, err == nil, err
}

// Close stops receiving. It ends Wait and waits until it returns. A second call does nothing.
func (c *Conn) Close() error {
	err := c.poller.Close()
	if c.socket != nil {
		_ = c.socket.Close() // nothing was written
	}
	return err
}
