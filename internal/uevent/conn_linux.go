package uevent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/socket"
	"golang.org/x/sys/unix"
)

// A Conn receives events. Close may be called while Receive waits; else its
// methods are for one goroutine.
type Conn struct {
	socket *socket.Conn
	buf    []byte
}

// fromKernel is the group in which the kernel sends; udevd sends in another.
const fromKernel = 1

// Dial begins to receive events. The socket keeps some hundred of them until they
// are read. It needs no privilege, but fails with ErrUnreachable where no event comes.
func Dial() (*Conn, error) {
	if err := reachable(); err != nil {
		return nil, err
	}
	s, err := socket.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT, "uevent", nil)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket for events of the kernel: %w", err)
	}
	if err := s.Bind(&unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: fromKernel}); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribing to events of the kernel: %w", err), s.Close())
	}
	return &Conn{socket: s, buf: make([]byte, maxEvent)}, nil
}

// firstUserNamespace is the inode of the first user namespace, PROC_USER_INIT_INO of
// include/linux/proc_ns.h.
const firstUserNamespace = 0xEFFFFFFD

// reachable returns nil if the kernel sends events to this network namespace:
// uevent_net_init in lib/kobject_uevent.c leaves out those that another user namespace
// than the first owns, though a socket can be bound there.
func reachable() error {
	net, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer net.Close()
	// It fails with EPERM if the owner is not this user namespace, nor one below it: then
	// it may be the first one, but that cannot be found out.
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

// Receive waits for an event. Its errors are those of ctx; ErrLost and those that
// wrap ErrSyntax, after which it can be called again; and those of the socket.
func (c *Conn) Receive(ctx context.Context) (Event, error) {
	for {
		n, from, err := c.socket.Recvfrom(withoutDeadline(ctx), c.buf, 0)
		if e, ok, err := c.event(n, from, err); ok || err != nil {
			return e, err
		}
	}
}

// Poll is Receive without waiting. It reports false if the socket was empty at an instant
// during the call: every event that was sent before it was received. Other events
// may have been sent since.
func (c *Conn) Poll() (e Event, ok bool, err error) {
	conn, err := c.socket.SyscallConn()
	if err != nil {
		return Event{}, false, err
	}
	controlErr := conn.Control(func(fd uintptr) {
		for !ok && err == nil {
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

// event makes an event of what was received. It reports false if that was no event of the
// kernel's.
func (c *Conn) event(n int, from unix.Sockaddr, err error) (Event, bool, error) {
	if errors.Is(err, unix.ENOBUFS) {
		return Event{}, false, ErrLost
	}
	if err != nil {
		return Event{}, false, err
	}
	if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
		return Event{}, false, nil // of a process, which may send what it likes
	}
	e, err := parse(c.buf[:n])
	return e, err == nil, err
}

// withoutDeadline returns ctx as one that is only done: one with a deadline the
// socket would not watch for anything else.
func withoutDeadline(ctx context.Context) context.Context { return undated{ctx} }

type undated struct{ context.Context }

func (undated) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Close ends the reception and interrupts Receive.
func (c *Conn) Close() error { return c.socket.Close() }
