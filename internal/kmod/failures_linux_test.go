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

// eventually waits until a condition holds. what describes it.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

// hasSymbols reports whether a module is known with its symbols.
func hasSymbols(c *symcache.Cache, module string) bool {
	m, _ := c.Snapshot().Module(module, timeline.Present)
	return m != nil && m.Len() > 0
}

// A gatedConn is a connection from which nothing is received before the gate is open.
type gatedConn struct {
	connection
	gate <-chan struct{}
}

func (g gatedConn) Poll() (uevent.Event, bool, error) {
	select {
	case <-g.gate:
		return g.connection.Poll()
	default:
		return uevent.Event{}, false, nil
	}
}

func (g gatedConn) Wait(ctx context.Context, deadline time.Time) error {
	select {
	case <-g.gate:
		return g.connection.Wait(ctx, deadline)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestEventsOverflowTheSocket has the kernel send more events than the socket has room for while
// nothing receives them. A module that is loaded after that, which no event announces, becomes known
// nevertheless.
func TestEventsOverflowTheSocket(t *testing.T) {
	kerneltest.NeedModules(t)
	_ = kerneltest.UnloadModule("veth")
	require.NoError(t, kerneltest.LoadModule("dummy"))
	gate := make(chan struct{})
	s := NewSource("/proc", "/sys", time.Millisecond, timeline.Limits{})
	s.state.feed.dial = func() (connection, error) {
		conn, err := uevent.Dial()
		return gatedConn{conn, gate}, err
	}
	c := symcache.Start(zap.NewNop(), nil, s)
	defer c.Stop()
	eventually(t, "the first table", func() bool { return hasSymbols(c, "dummy") })
	assert.Zero(t, c.Counts()[0].Counts.LostRecords)

	for range 500 { // the socket has room for about 200
		require.NoError(t, os.WriteFile("/sys/module/dummy/uevent", []byte("change"), 0))
	}
	require.NoError(t, kerneltest.LoadModule("veth"))
	close(gate)
	eventually(t, "the loss is known", func() bool { return c.Counts()[0].Counts.LostRecords > 0 })
	eventually(t, "names", func() bool { return hasSymbols(c, "veth") && c.Counts()[0].Counts.Resyncs > 0 })
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

// TestContract_8_WithoutSysfs verifies that names are right without sysfs, although the ranges of
// modules come from the list.
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
	functions, named := 0, 0
	for _, l := range moduleLines(t) {
		if !l.isName() || !isModule(l.module) {
			continue
		}
		functions++
		if hit, _ := c.Snapshot().At(l.addr, timeline.Present); hit.Symbol.Exists() {
			named++
			require.Equal(t, l.module, hit.Image.Name(), "%x %s", l.addr, l.name)
			require.Empty(t, hit.Image.Text.FileID)
		}
	}
	t.Logf("%d of %d functions have a name", named, functions)
	assert.Greater(t, named*10, functions*9)
}

// TestHiddenAddressesOfTheKernel has the kernel hide all addresses before the source starts, and
// again while it runs.
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
	hasState := func(state symcache.State) func() bool {
		return func() bool { return c.Health()[0].State == state }
	}
	eventually(t, "its state", hasState(symcache.StateDown))
	require.ErrorIs(t, c.Health()[0].Err, kallsyms.ErrRestricted)
	require.ErrorContains(t, c.Health()[0].Err, "kernel.kptr_restrict")
	restrict("1")
	eventually(t, "names", func() bool { return hasSymbols(c, "dummy") })
	assert.True(t, hasState(symcache.StateUp)())

	restrict("2")
	require.NoError(t, kerneltest.LoadModule("veth"))
	eventually(t, "its state", hasState(symcache.StateDegraded))
	require.ErrorIs(t, c.Health()[0].Err, kallsyms.ErrRestricted)
	assert.True(t, hasSymbols(c, "dummy"), "6.2: known modules stay")
	restrict("1")
	eventually(t, "names", func() bool { return hasSymbols(c, "veth") })
	assert.True(t, hasState(symcache.StateUp)())
}

// TestFilesThatVanish reads a module's files in sysfs while the module is unloaded. Files that vanish
// because of that are not an error.
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
	vanished, complete := 0, 0
	for began := time.Now(); complete == 0 || vanished == 0 && time.Since(began) < 20*time.Second; {
		before := unloaded.Load()
		list, err := s.roots.readList()
		require.NoError(t, err)
		for _, entry := range list {
			if entry.name != "veth" || !entry.live {
				continue
			}
			l := s.roots.readLoad(entry, s.roots.endRule())
			if l == nil {
				vanished++
				continue
			}
			if unloaded.Load() > before {
				continue // it may be loaded again, which an event would announce
			}
			require.NoError(t, l.err)
			complete++
			require.Len(t, l.info.BuildID, 40)
		}
	}
	t.Logf("it vanished while it was read %d times, and did not %d times", vanished, complete)
	if vanished == 0 { // this depends on chance
		t.Skip("the module never vanished while it was read: that is not tested")
	}
}
