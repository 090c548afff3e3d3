// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestMain(m *testing.M) {
	time.Sleep(time.Nanosecond) // with the first timer, the runtime opens two files that it keeps
	goleak.VerifyTestMain(m)
}

// never is later than any of these tests.
var never = time.Now().Add(time.Hour)

// open returns a Poller, which leaves no file open.
func open(t *testing.T) *Poller {
	t.Helper()
	files := kerneltest.OpenFiles(t)
	p, err := New()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, p.Close(), "twice")
		assert.Equal(t, files, kerneltest.OpenFiles(t), "files are left open")
	})
	return p
}

// counter is an eventfd: readable when something was added to it.
type counter int

// count returns a counter that the Poller watches.
func (p *Poller) count(t *testing.T) counter {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	require.NoError(t, p.Add(fd))
	t.Cleanup(func() { _ = unix.Close(fd) }) // before the Poller's files are counted
	return counter(fd)
}

func (c counter) add() {
	_, _ = unix.Write(int(c), []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (c counter) reset() {
	var was [8]byte
	_, _ = unix.Read(int(c), was[:])
}

func (c counter) isReady() bool { return IsReady(int(c)) }

func notReady() bool { return false }

// waits fails unless Wait waits for its deadline. It may return early once or twice: an earlier
// change can still be on its way through the runtime.
func (p *Poller) waits(t *testing.T) {
	t.Helper()
	early := 0
	for range 5 {
		deadline := time.Now().Add(20 * time.Millisecond)
		require.NoError(t, p.Wait(t.Context(), deadline, notReady))
		if time.Now().Before(deadline) {
			early++
		}
	}
	assert.LessOrEqual(t, early, 2, "it waited")
}

// waitFor waits until a counter is ready, and returns how often Wait returned early.
func (p *Poller) waitFor(t *testing.T, c counter) (early int) {
	t.Helper()
	for {
		require.NoError(t, p.Wait(t.Context(), never, c.isReady))
		if c.isReady() {
			return early
		}
		early++
	}
}

// TestWaitSeesEachChange adds to files at any moment: before Wait, while it begins and while it
// waits. It must notice every change: no deadline ends the wait.
func TestWaitSeesEachChange(t *testing.T) {
	p := open(t)
	counters := []counter{p.count(t), p.count(t), p.count(t)}
	for i := range 3000 {
		c := counters[i%len(counters)]
		go c.add()
		for !c.isReady() {
			require.NoError(t, p.Wait(t.Context(), never, c.isReady))
		}
		c.reset()
	}
}

// TestAChangeEndsWait, even if ready does not report it.
func TestAChangeEndsWait(t *testing.T) {
	p := open(t)
	c := p.count(t)
	for range 100 {
		began := make(chan struct{})
		go func() { <-began; c.add() }()
		require.NoError(t, p.Wait(t.Context(), never, func() bool { close(began); return false }))
		assert.True(t, c.isReady())
		c.reset()
	}
}

// TestWhatCameBeforeIsForReady: a file that was already readable when Wait was called ends it
// only if ready returns true.
func TestWhatCameBeforeIsForReady(t *testing.T) {
	p := open(t)
	c := p.count(t)
	c.add()
	for range 3 {
		require.NoError(t, p.Wait(t.Context(), never, c.isReady))
	}
	p.waits(t)
}

// TestManyFilesAreForgotten has more files than fit into one answer of the kernel.
func TestManyFilesAreForgotten(t *testing.T) {
	p := open(t)
	for range 200 {
		p.count(t).add()
	}
	p.waits(t)
}

// TestSleepIgnoresFiles that change before or during it.
func TestSleepIgnoresFiles(t *testing.T) {
	p := open(t)
	c := p.count(t)
	c.add()
	deadline := time.Now().Add(20 * time.Millisecond)
	added := make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { c.add(); close(added) })
	require.NoError(t, p.Sleep(t.Context(), deadline))
	assert.False(t, time.Now().Before(deadline), "it waited")
	<-added
	require.NoError(t, p.Wait(t.Context(), never, c.isReady))
}

// TestADeadlineEndsWait, even one that has passed. After that, Wait waits again.
func TestADeadlineEndsWait(t *testing.T) {
	p := open(t)
	c := p.count(t)
	for range 10 {
		for _, after := range []time.Duration{-time.Hour, 0, 1, time.Millisecond} {
			require.NoError(t, p.Wait(t.Context(), time.Now().Add(after), notReady))
			require.NoError(t, p.Sleep(t.Context(), time.Now().Add(after)))
		}
	}
	time.AfterFunc(time.Millisecond, c.add)
	assert.LessOrEqual(t, p.waitFor(t, c), 2, "no deadline of before ended it")
}

// TestContextEndsWait, but only the call with that context.
func TestContextEndsWait(t *testing.T) {
	p := open(t)
	c := p.count(t)
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		if i%2 == 0 {
			go cancel()
		} else {
			time.AfterFunc(time.Millisecond, cancel)
		}
		var err error
		for err == nil { // it can return early
			err = p.Wait(ctx, never, notReady)
		}
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, p.Sleep(ctx, never), context.Canceled)
		go c.add()
		p.waitFor(t, c)
		c.reset()
	}
}

func TestCloseEndsWait(t *testing.T) {
	for name, wait := range map[string]func(p *Poller) error{
		"Wait":  func(p *Poller) error { return p.Wait(t.Context(), never, notReady) },
		"Sleep": func(p *Poller) error { return p.Sleep(t.Context(), never) },
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 50 {
				p := open(t)
				ended := make(chan error)
				go func() { ended <- wait(p) }()
				if i%2 == 0 {
					time.Sleep(time.Millisecond) // so that it waits
				}
				require.NoError(t, p.Close())
				require.ErrorIs(t, <-ended, os.ErrClosed)
				require.ErrorIs(t, wait(p), os.ErrClosed)
				require.ErrorIs(t, p.Wait(t.Context(), time.Now(), notReady), os.ErrClosed)
				require.ErrorIs(t, p.Add(0), os.ErrClosed)
			}
		})
	}
}

// TestFilesThatAreClosedAreForgotten, while new ones are watched.
func TestFilesThatAreClosedAreForgotten(t *testing.T) {
	p := open(t)
	for range 10 {
		t.Run("", func(t *testing.T) { // it closes the counter
			c := p.count(t)
			go c.add()
			p.waitFor(t, c)
		})
	}
	p.waits(t)
}

func TestEvery(t *testing.T) {
	for name, every := range map[string]func(context.Context, time.Duration, func()){"Every": Every, "tick": tick} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			began, n := time.Now(), 0
			every(ctx, time.Millisecond, func() {
				if n++; n == 3 {
					cancel()
				}
			})
			assert.Equal(t, 3, n)
			assert.GreaterOrEqual(t, time.Since(began), 3*time.Millisecond)
		})
	}
}
