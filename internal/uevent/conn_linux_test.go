// SPDX-License-Identifier: Apache-2.0

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

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// provoke makes the kernel send an event about the network interface "lo".
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
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// never is later than any of these tests.
var never = time.Now().Add(time.Hour)

// receive waits for the next event, whatever it is.
func receive(ctx context.Context, c *Conn) (Event, error) {
	for {
		if e, ok, err := c.Poll(); ok || err != nil {
			return e, err
		}
		if err := c.Wait(ctx, never); err != nil {
			return Event{}, err
		}
	}
}

// receiveLo receives events until one is about lo. If events are lost, it provokes another.
func receiveLo(t *testing.T, c *Conn) Event {
	t.Helper()
	for {
		e, err := receive(t.Context(), c)
		if errors.Is(err, ErrLost) {
			t.Log(err)
			provoke(t)
			continue
		}
		require.NoError(t, err)
		if e.DevPath == "/devices/virtual/net/lo" {
			return e
		}
	}
}

// drain reads all events that have arrived, and returns the number of events about lo and the
// last error.
func drain(c *Conn) (ours int, last error) {
	for {
		e, ok, err := c.Poll()
		switch {
		case err != nil:
			last = err
		case !ok:
			return ours, last
		case e.DevPath == "/devices/virtual/net/lo":
			ours++
		}
	}
}

// limitRoom gives the socket the smallest possible buffer.
func limitRoom(t *testing.T, c *Conn) {
	t.Helper()
	var err error
	require.NoError(t, c.calls.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
	}))
	require.NoError(t, err)
}

func TestReceive(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	provoke(t)
	assert.Equal(t, Event{Action: "change", DevPath: "/devices/virtual/net/lo", Subsystem: "net", Synthetic: true}, receiveLo(t, c))
}

// TestLost sends more events than the socket has room for, and goes on after the loss. The loss
// ends Wait, although it is not an event.
func TestLost(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	limitRoom(t, c)
	for range 100 {
		provoke(t)
	}
	require.NoError(t, c.Wait(t.Context(), never))
	ours, err := drain(c)
	require.ErrorIs(t, err, ErrLost)
	assert.Less(t, ours, 100)
	provoke(t)
	receiveLo(t, c)
}

// TestEventsOfProcessesAreIgnored sends an event from a process, as udevd does, but to the
// kernel's group.
func TestEventsOfProcessesAreIgnored(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	sender := dial(t)
	var err error
	require.NoError(t, sender.calls.Control(func(fd uintptr) {
		err = unix.Sendto(int(fd), []byte(added), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: fromKernel})
	}))
	if err != nil {
		t.Skipf("not root (%v): events of other processes are not tested", err)
	}
	provoke(t)
	for e := (Event{}); e.DevPath != "/devices/virtual/net/lo"; {
		e, err = receive(t.Context(), c)
		require.NoError(t, err)
		require.NotEqual(t, "/module/xfs", e.DevPath)
	}
}

// TestPoll empties the socket without waiting, and finds all earlier events.
func TestPoll(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	ours, err := drain(c)
	require.NoError(t, err)
	assert.Zero(t, ours)
	for range 3 {
		provoke(t)
	}
	ours, err = drain(c)
	require.NoError(t, err)
	assert.Equal(t, 3, ours)

	require.NoError(t, c.Close())
	_, ok, err := c.Poll()
	assert.False(t, ok)
	assert.Error(t, err)
}

// TestUnreachable runs in other namespaces. Dial succeeds only where the kernel sends events.
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
