package uevent

import (
	"context"
	"errors"
	"fmt"
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
// are read. It needs no privilege.
func Dial() (*Conn, error) {
	s, err := socket.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT, "uevent", nil)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket for events of the kernel: %w", err)
	}
	if err := s.Bind(&unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: fromKernel}); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribing to events of the kernel: %w", err), s.Close())
	}
	return &Conn{socket: s, buf: make([]byte, maxEvent)}, nil
}

// Receive waits for an event. Its errors are those of ctx; ErrLost and those that
// wrap ErrSyntax, after which it can be called again; and those of the socket.
func (c *Conn) Receive(ctx context.Context) (Event, error) {
	for {
		n, from, err := c.socket.Recvfrom(withoutDeadline(ctx), c.buf, 0)
		switch sender, ok := from.(*unix.SockaddrNetlink); {
		case errors.Is(err, unix.ENOBUFS):
			return Event{}, ErrLost
		case err != nil:
			return Event{}, err
		case !ok || sender.Pid != 0:
			continue // of a process, which may send what it likes
		}
		return parse(c.buf[:n])
	}
}

// withoutDeadline returns ctx as one that is only done: one with a deadline the
// socket would not watch for anything else.
func withoutDeadline(ctx context.Context) context.Context { return undated{ctx} }

type undated struct{ context.Context }

func (undated) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Close ends the reception and interrupts Receive.
func (c *Conn) Close() error { return c.socket.Close() }
