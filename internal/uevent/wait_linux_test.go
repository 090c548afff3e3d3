package uevent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// drain reads what has come, and returns the number of events of lo and the last error.
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

// TestPollWhileWaiting: what the kernel sent before a call of Poll is there at once, also
// while Wait waits.
func TestPollWhileWaiting(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	for range 100 {
		ready := make(chan error)
		go func() { ready <- c.Wait(t.Context()) }()
		provoke(t)
		ours, err := drain(c)
		require.NoError(t, err)
		require.Equal(t, 1, ours)
		provoke(t) // Wait can have missed the first
		require.NoError(t, <-ready)
		ours, _ = drain(c)
		require.Equal(t, 1, ours)
	}
}

// TestWaitSeesALoss although it is no event.
func TestWaitSeesALoss(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	require.NoError(t, c.socket.SetReadBuffer(1)) // the least there is
	for range 100 {
		provoke(t)
	}
	require.NoError(t, c.Wait(t.Context()))
	_, err := drain(c)
	require.ErrorIs(t, err, ErrLost)
}

// TestContextEndsWait, and only that: the next one waits again.
func TestContextEndsWait(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		for c.Wait(ctx) == nil { // events of others
			_, _ = drain(c)
		}
		require.ErrorIs(t, c.Wait(ctx), context.Canceled)
	}
	provoke(t)
	require.NoError(t, c.Wait(t.Context()))
	ours, err := drain(c)
	require.NoError(t, err)
	require.Equal(t, 1, ours)
}

func TestCloseEndsWait(t *testing.T) {
	c := dial(t)
	ended := make(chan error)
	go func() {
		for {
			if err := c.Wait(t.Context()); err != nil {
				ended <- err
				return
			}
			_, _ = drain(c)
		}
	}()
	require.NoError(t, c.Close())
	require.Error(t, <-ended)
	_, ok, err := c.Poll()
	require.False(t, ok)
	require.Error(t, err)
}
