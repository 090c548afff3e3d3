package uevent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// provoke has the kernel send an event about the network interface "lo".
func provoke(t *testing.T) {
	t.Helper()
	err := os.WriteFile("/sys/class/net/lo/uevent", []byte("change"), 0)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		t.Skipf("not root, or in a container (%v): no event can be provoked, so receiving events is not tested", err)
	}
	require.NoError(t, err)
}

func dial(t *testing.T) *Conn {
	t.Helper()
	c, err := Dial()
	if errors.Is(err, ErrUnreachable) && !kerneltest.InVM() { // which is no container
		t.Skip("events of the kernel are not tested: ", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// receive receives events until one is of lo.
func receive(t *testing.T, c *Conn) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		e, err := c.Receive(ctx)
		require.NoError(t, err)
		if e.DevPath == "/devices/virtual/net/lo" {
			return e
		}
	}
}

func TestReceive(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	provoke(t)
	assert.Equal(t, Event{Action: "change", DevPath: "/devices/virtual/net/lo", Subsystem: "net"}, receive(t, c))
}

// TestLost sends more than the socket has room for, and goes on after it.
func TestLost(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	require.NoError(t, c.socket.SetReadBuffer(1)) // the least there is
	for range 100 {
		provoke(t)
	}
	var err error
	for range 101 {
		if _, err = c.Receive(t.Context()); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, ErrLost)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for err = nil; err == nil; { // what is in the socket
		_, err = c.Receive(ctx)
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	provoke(t)
	receive(t, c)
}

func TestReceiveIsInterrupted(t *testing.T) {
	c := dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	receive := func() {
		for {
			if _, err := c.Receive(ctx); err != nil {
				ended <- err
				return
			}
		}
	}
	go receive()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)

	parent, cancel := context.WithCancel(t.Context())
	ctx, stop := context.WithTimeout(parent, time.Hour) // but canceled long before
	defer stop()
	go receive()
	time.Sleep(10 * time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)

	ctx = t.Context()
	go receive()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, c.Close())
	assert.Error(t, <-ended)
}

// TestEventsOfProcessesAreIgnored sends one as udevd does, but in the kernel's
// group.
func TestEventsOfProcessesAreIgnored(t *testing.T) {
	c := dial(t)
	sender := dial(t)
	err := sender.socket.Sendto(t.Context(), []byte(added), 0, kernelGroup)
	if err != nil {
		t.Skipf("not root (%v): events of other processes are not tested", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for err = nil; err == nil; {
		var e Event
		e, err = c.Receive(ctx)
		assert.NotEqual(t, "/module/xfs", e.DevPath)
	}
}

var kernelGroup = &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: fromKernel}

// TestPoll empties the socket without waiting, and finds what came before.
func TestPoll(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	drain := func() (ours int) {
		for {
			e, ok, err := c.Poll()
			require.NoError(t, err)
			if !ok {
				return ours
			}
			if e.DevPath == "/devices/virtual/net/lo" {
				ours++
			}
		}
	}
	assert.Zero(t, drain())
	for range 3 {
		provoke(t)
	}
	assert.Equal(t, 3, drain())

	require.NoError(t, c.socket.SetReadBuffer(1)) // the least there is
	for range 100 {
		provoke(t)
	}
	var err error
	for ok := true; ok && err == nil; {
		_, ok, err = c.Poll()
	}
	require.ErrorIs(t, err, ErrLost)
	drain()

	require.NoError(t, c.Close())
	_, _, err = c.Poll()
	assert.Error(t, err)
}

// TestUnreachable runs in other namespaces. Only where the kernel sends events, Dial
// succeeds.
func TestUnreachable(t *testing.T) {
	const asked = "KERNELSYM_TEST_DIAL"
	if os.Getenv(asked) != "" {
		_, err := Dial()
		fmt.Println("unreachable:", errors.Is(err, ErrUnreachable), err)
		os.Exit(0)
	}
	if os.Getuid() != 0 {
		t.Skip("not root: other namespaces are not tested")
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	for name, tt := range map[string]struct {
		flags uintptr
		want  string
	}{
		"another network namespace":                {syscall.CLONE_NEWNET, "unreachable: false <nil>"},
		"a network namespace of a user namespace":  {syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER, "unreachable: true"},
		"a user namespace, whose parent is hidden": {syscall.CLONE_NEWUSER, "unreachable: true"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestUnreachable$")
			cmd.Env = append(os.Environ(), asked+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: tt.flags}
			if tt.flags&syscall.CLONE_NEWUSER != 0 {
				cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, ids
			}
			out, err := cmd.CombinedOutput()
			if errors.Is(err, unix.EPERM) {
				t.Skipf("the kernel refuses namespaces (%v): that events do not come is not tested", err)
			}
			require.NoError(t, err, "%s", out)
			assert.Contains(t, string(out), tt.want)
		})
	}
}
