// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collectorcomponent "go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/kmod"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/kernelsymprocessor"
)

// observed is a source that calls published after each publication, once the cache's snapshot has
// it.
type observed struct {
	*kmod.Source
	published func()
}

func (o observed) Run(ctx context.Context, publish func(symcache.Update)) error {
	return o.Source.Run(ctx, func(u symcache.Update) {
		publish(u)
		o.published()
	})
}

// TestChurn verifies names while modules are loaded and unloaded, and take each other's addresses.
// Messages with frames at all these addresses pass through the processor. Each frame that comes out
// in a module is checked against the ledger, which lists the loads that it can belong to at that
// time. In the end, the table equals the table of a new source, and nothing is left open.
func TestChurn(t *testing.T) {
	kerneltest.NeedModules(t)
	_, err := symcache.Load(t.Context(), kmod.NewSource("/proc", "/sys", 0, timeline.Limits{})) // opens what Go opens once
	require.NoError(t, err)
	goroutines, files := goleak.IgnoreCurrent(), openFiles(t)

	l := &ledger{files: make(map[string]*kerneltest.ModuleCode)}
	var cache *symcache.Cache
	c, err := kernelsymprocessor.NewShared(collectorcomponent.MustNewID("kernelsym"), componenttest.NewNopTelemetrySettings(),
		rewrite.Options{Addresses: rewrite.KeepAddresses}, func(collectorcomponent.Host) (kernelsymprocessor.Sources, func(), error) {
			cache = symcache.Start(zap.NewNop(), nil, observed{kmod.NewSource("/proc", "/sys", 5*time.Millisecond, timeline.Limits{}), l.published})
			return kernelsymprocessor.Sources{Symbols: cache}, cache.Stop, nil
		})
	require.NoError(t, err)
	p := c.NewProcessor()
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	stop := make(chan struct{})
	var profiles sync.WaitGroup
	for range 2 {
		profiles.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					pass(t, p, l)
				}
			}
		})
	}
	cycle(t, l, cache)
	close(stop)
	profiles.Wait()
	t.Logf("%d loads at %d addresses; %d frames had a name and %d only their module, none a module that was not loaded",
		len(l.loads), len(l.bases()), l.named, l.nameless)
	assert.Positive(t, l.named)
	assert.Less(t, len(l.bases()), len(l.loads), "addresses are used again")

	require.NoError(t, kerneltest.LoadModule("veth"))
	waitFor(t, "a table equal to that of a new source", func() bool {
		fresh, err := symcache.Load(t.Context(), kmod.NewSource("/proc", "/sys", 0, timeline.Limits{}))
		return err == nil && slices.Equal(described(fresh), described(cache.Snapshot()))
	})
	require.NoError(t, p.Shutdown(t.Context()))
	goleak.VerifyNone(t, goroutines)
	assert.Equal(t, files, openFiles(t), "open files")
}

// cycle loads and unloads modules. It mostly does not wait, but now and then waits for the source.
func cycle(t *testing.T, l *ledger, cache *symcache.Cache) {
	t.Helper()
	const cycles = 50
	modules := []string{"veth", "dummy", "ifb", "nlmon", "macvlan"}
	var loaded []*load
	for i := range cycles {
		name := modules[i%len(modules)]
		if j := slices.IndexFunc(loaded, func(ld *load) bool { return ld.module == name }); j >= 0 {
			l.unload(t, loaded[j])
			loaded = slices.Delete(loaded, j, j+1)
		}
		ld := l.load(t, name)
		if i%8 == 3 {
			waitFor(t, name+" has names", func() bool {
				m, _ := cache.Fresh().Module(name, timeline.Present)
				return m != nil && m.Len() > 0 && m.Base() == ld.base
			})
		}
		if i%7 == 0 {
			loaded = append(loaded, ld) // so that another one gets a new address
			continue
		}
		l.unload(t, ld)
		if i%16 == 3 {
			waitFor(t, name+" is gone", func() bool {
				m, _ := cache.Fresh().Module(name, timeline.Present)
				return m == nil
			})
		}
	}
	for _, ld := range loaded {
		l.unload(t, ld)
	}
}

// pass sends a message through the processor, and judges what comes out.
func pass(t *testing.T, p *kernelsymprocessor.Processor, l *ledger) {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "")
	addresses, could := l.now()
	for _, addr := range addresses {
		m.Sample(frame{Address: addr, Type: "kernel"})
	}
	m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).SetTime(pcommon.NewTimestampFromTime(time.Now()))
	pd, err := p.ProcessProfiles(context.Background(), m.Profiles)
	if err != nil {
		t.Error(err)
	}
	if err := rewritetest.CheckSent(pd); err != nil {
		t.Error(err)
	}
	for _, s := range rewritetest.Samples(pd) {
		if f := s.Stack[0]; f.Mapping != nil {
			l.judge(t, f, could)
		}
	}
}

// described describes all modules and symbols, except their lifetimes.
func described(s *timeline.Snapshot) (all []string) {
	for _, table := range s.Tables() {
		for _, m := range table.Loaded() {
			all = append(all, fmt.Sprintf("%s %#x-%#x %#x %s %s", m.Name(), m.Start, m.End, m.Base(), m.BuildID(), m.Text.FileID))
			for i := range m.Len() {
				symbol := m.Text.Symbol(i)
				all = append(all, fmt.Sprintf("%#x-%#x %s", symbol.Start, symbol.End(), m.Text.Name(symbol).System))
			}
		}
	}
	return all
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(otelcol.Patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// textOf returns the kernel's address for the .text of a module.
func textOf(t *testing.T, module string) uint64 {
	t.Helper()
	addr, err := kerneltest.TextOf(module)
	require.NoError(t, err)
	return addr
}
