// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

// named reports whether a module is known with its symbols.
func named(c *symcache.Cache, module string) bool {
	m, _ := c.Snapshot().Module(module, timeline.Present)
	return m != nil && m.Len() > 0
}

// gated are events that nothing receives before the gate is open.
type gated struct {
	events
	gate <-chan struct{}
}

func (g gated) Poll() (uevent.Event, bool, error) {
	select {
	case <-g.gate:
		return g.events.Poll()
	default:
		return uevent.Event{}, false, nil
	}
}

func (g gated) Wait(ctx context.Context, deadline time.Time) error {
	select {
	case <-g.gate:
		return g.events.Wait(ctx, deadline)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestStorm has the kernel send more events than the socket has room for while
// nothing receives them. A module that is loaded after that, that no event announces,
// is known all the same.
func TestStorm(t *testing.T) {
	kerneltest.NeedModules(t)
	_ = kerneltest.UnloadModule("veth")
	require.NoError(t, kerneltest.LoadModule("dummy"))
	gate := make(chan struct{})
	s := NewSource("/proc", "/sys", time.Millisecond, timeline.Limits{})
	s.feed.dial = func() (events, error) {
		conn, err := uevent.Dial()
		return gated{conn, gate}, err
	}
	c := symcache.Start(zap.NewNop(), nil, s)
	defer c.Stop()
	eventually(t, "the first table", func() bool { return named(c, "dummy") })
	assert.Zero(t, c.Counts()[0].Counts.LostRecords)

	for range 500 { // the socket has room for some 200
		require.NoError(t, os.WriteFile("/sys/module/dummy/uevent", []byte("change"), 0))
	}
	require.NoError(t, kerneltest.LoadModule("veth"))
	close(gate)
	eventually(t, "the loss is known", func() bool { return c.Counts()[0].Counts.LostRecords > 0 })
	eventually(t, "names", func() bool { return named(c, "veth") && c.Counts()[0].Counts.Resyncs > 0 })
	counts := c.Counts()[0]
	assert.Equal(t, []symcache.Health{{Source: "modules", State: symcache.StateUp}}, c.Health())
	t.Logf("%+v", counts)

	require.NoError(t, kerneltest.UnloadModule("veth"))
	eventually(t, "events come again", func() bool { return !hasModule(c, "veth") })
	assert.Equal(t, counts.Counts.LostRecords, c.Counts()[0].Counts.LostRecords)
}

func hasModule(c *symcache.Cache, name string) bool {
	m, _ := c.Snapshot().Module(name, timeline.Present)
	return m != nil
}

// TestContract_8_WithoutSysfs: names are right, but the ranges are those that the
// list of modules has.
func TestContract_8_WithoutSysfs(t *testing.T) {
	kerneltest.NeedModules(t)
	loadMany(t)
	c := symcache.Start(zap.NewNop(), nil, NewSource("/proc", t.TempDir(), 0, timeline.Limits{}))
	defer c.Stop()
	eventually(t, "a table", func() bool { return c.Health()[0].State != symcache.StateStarting })
	health := c.Health()[0]
	assert.Equal(t, symcache.StateDegraded, health.State)
	require.ErrorContains(t, health.Err, "no file ID")
	require.ErrorContains(t, health.Err, "check that sysfs is mounted there")
	code, with := 0, 0
	for _, l := range moduleLines(t) {
		if !l.isName() || !isModule(l.module) {
			continue
		}
		code++
		if hit, _ := c.Snapshot().At(l.addr, timeline.Present); hit.Symbol.Exists() {
			with++
			require.Equal(t, l.module, hit.Image.Name(), "%x %s", l.addr, l.name)
			require.Empty(t, hit.Image.Text.FileID)
		}
	}
	t.Logf("%d of %d functions have a name", with, code)
	assert.Greater(t, with*10, code*9)
}

// TestHiddenAddressesOfTheKernel has the kernel hide all addresses before the
// source begins, and while it runs.
func TestHiddenAddressesOfTheKernel(t *testing.T) {
	kerneltest.NeedModules(t)
	restrict := func(level string) {
		require.NoError(t, os.WriteFile("/proc/sys/kernel/kptr_restrict", []byte(level), 0))
	}
	defer restrict("1")
	_ = kerneltest.UnloadModule("veth")
	require.NoError(t, kerneltest.LoadModule("dummy"))
	restrict("2")
	c := symcache.Start(zap.NewNop(), nil, NewSource("/proc", "/sys", time.Millisecond, timeline.Limits{}))
	defer c.Stop()
	is := func(state symcache.State) func() bool {
		return func() bool { return c.Health()[0].State == state }
	}
	eventually(t, "its state", is(symcache.StateDown))
	require.ErrorIs(t, c.Health()[0].Err, kallsyms.ErrRestricted)
	require.ErrorContains(t, c.Health()[0].Err, "kernel.kptr_restrict")
	restrict("1")
	eventually(t, "names", func() bool { return named(c, "dummy") })
	assert.True(t, is(symcache.StateUp)())

	restrict("2")
	require.NoError(t, kerneltest.LoadModule("veth"))
	eventually(t, "its state", is(symcache.StateDegraded))
	require.ErrorIs(t, c.Health()[0].Err, kallsyms.ErrRestricted)
	assert.True(t, named(c, "dummy"), "6.2: what was known stays")
	restrict("1")
	eventually(t, "names", func() bool { return named(c, "veth") })
	assert.True(t, is(symcache.StateUp)())
}

// TestFilesThatVanish reads what sysfs has of a module while it is unloaded:
// what was read in part does not count as something to complain of.
func TestFilesThatVanish(t *testing.T) {
	kerneltest.NeedModules(t)
	s := NewSource("/proc", "/sys", 0, timeline.Limits{})
	stop := make(chan struct{})
	var churn sync.WaitGroup
	var unloaded atomic.Int64
	defer func() { close(stop); churn.Wait() }()
	churn.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := errors.Join(kerneltest.LoadModule("veth"), kerneltest.UnloadModule("veth")); err != nil {
					t.Error(err)
					return
				}
				unloaded.Add(1)
			}
		}
	})
	vanished, whole := 0, 0
	for began := time.Now(); whole == 0 || vanished == 0 && time.Since(began) < 20*time.Second; {
		before := unloaded.Load()
		list, err := s.list()
		require.NoError(t, err)
		for _, is := range list {
			if is.name != "veth" || !is.live {
				continue
			}
			l := s.describe(is, s.endRule())
			if l == nil {
				vanished++
				continue
			}
			if unloaded.Load() > before {
				continue // it may be there again, which an event says
			}
			require.NoError(t, l.err)
			whole++
			require.Len(t, l.info.BuildID, 40)
		}
	}
	t.Logf("%d times it vanished while it was read, %d times not", vanished, whole)
	if vanished == 0 { // it is a matter of chance
		t.Skip("the module never went while it was read: that is not tested")
	}
}
