// SPDX-License-Identifier: Apache-2.0

package uevent

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestPollWhileWaiting: Poll returns events that the kernel sent before the call at once, even
// while Wait waits.
func TestPollWhileWaiting(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	for range 100 {
		ready := make(chan error, 1)
		go func() { ready <- c.Wait(t.Context(), never) }()
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

// TestWaitSeesWhatCameBefore: an event that arrived before the call of Wait ends it, again and
// again, until the event is read.
func TestWaitSeesWhatCameBefore(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	provoke(t)
	for range 3 {
		require.NoError(t, c.Wait(t.Context(), never))
	}
	ours, err := drain(c)
	require.NoError(t, err)
	require.Equal(t, 1, ours)
}

// TestADeadlineEndsWait without an event.
func TestADeadlineEndsWait(t *testing.T) {
	c := dial(t)
	require.NoError(t, c.Wait(t.Context(), time.Now()))
	require.NoError(t, c.Wait(t.Context(), time.Now().Add(time.Millisecond)))
}

// TestContextEndsWait, but only that call: the next one waits again.
func TestContextEndsWait(t *testing.T) {
	kerneltest.NeedUevents(t)
	c := dial(t)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		for c.Wait(ctx, never) == nil { // events of other tests
			_, _ = drain(c)
		}
		require.ErrorIs(t, c.Wait(ctx, never), context.Canceled)
	}
	provoke(t)
	require.NoError(t, c.Wait(t.Context(), never))
	ours, err := drain(c)
	require.NoError(t, err)
	require.Equal(t, 1, ours)
}

func TestCloseEndsWait(t *testing.T) {
	files := kerneltest.OpenFiles(t)
	c := dial(t)
	ended := make(chan error)
	go func() {
		for {
			if err := c.Wait(t.Context(), never); err != nil {
				ended <- err
				return
			}
			_, _ = drain(c)
		}
	}()
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-ended, os.ErrClosed)
	require.ErrorIs(t, c.Wait(t.Context(), never), os.ErrClosed)
	require.NoError(t, c.Close(), "twice")
	require.Equal(t, files, kerneltest.OpenFiles(t), "files are left open")
}
