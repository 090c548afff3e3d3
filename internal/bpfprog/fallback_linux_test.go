// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// counted counts how often each program is queried.
type counted struct {
	ProgramReader
	mu    sync.Mutex
	asked map[uint32]int
	lists int
}

func (c *counted) Next(after uint32) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if after == 0 {
		c.lists++
	}
	return c.ProgramReader.Next(after)
}

func (c *counted) Program(id uint32, want bpf.Want) (*bpf.Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[id]++
	return c.ProgramReader.Program(id, want)
}

func (c *counted) counts(id uint32) (lists, asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists, c.asked[id]
}

// TestWithoutRecords has the kernel refuse perf events: programs are listed again and again, and each is
// queried once.
func TestWithoutRecords(t *testing.T) {
	kerneltest.Limited(t, kerneltest.Limits{
		Need:   func(t testing.TB) { kerneltest.NeedBPF(t) },
		Refuse: []uint32{unix.SYS_PERF_EVENT_OPEN},
	}, func(t *testing.T) {
		before := loadAll(t, "before")
		s := NewSource(everything)
		programs := &counted{ProgramReader: s.run.lister.programs, asked: map[uint32]int{}}
		s.run.lister.programs = programs
		latest := run(t, s)
		require.ErrorIs(t, latest().degraded, perfring.ErrPermission)
		require.ErrorContains(t, latest().degraded, "falling back to polling BPF programs; short-lived programs and trampolines have no names")
		require.ErrorContains(t, latest().degraded, "CAP_PERFMON")
		checkPrograms(t, latest, before)

		after := loadAll(t, "after")
		checkPrograms(t, latest, slices.Concat(before, after))
		c := codeOf(t, after[0])
		known := eventually(t, latest, "a second look shows it", func(table *timeline.Table) bool {
			hit, ok := at(table, c.starts[0], timeline.Present)
			return ok && hit.Image.Lifetime.From < table.Certain()
		}).Certain() - 1
		require.NoError(t, after[0].Close())
		table := eventually(t, latest, "the program is gone", func(table *timeline.Table) bool {
			hit, ok := at(table, c.starts[0], timeline.Present)
			return !ok || hit.Image.Program.ID != c.id
		})
		_, ok := at(table, c.starts[0], timeline.Instant(known))
		assert.True(t, ok, "it is remembered")
		for _, p := range slices.Concat(before, after[1:]) {
			lists, asked := programs.counts(codeOf(t, p).id)
			assert.Equal(t, 1, asked, "in %d lists", lists)
			assert.Greater(t, lists, 1)
		}
	})
}

// TestWithoutAList has the kernel refuse to list programs: programs loaded before the start have no names,
// and records name the later ones.
func TestWithoutAList(t *testing.T) {
	kerneltest.Limited(t, kerneltest.Limits{
		Need: func(t testing.TB) { kerneltest.NeedBPF(t) },
		Drop: []capability.Cap{capability.CAP_SYS_ADMIN},
	}, func(t *testing.T) {
		before := loadAll(t, "before")
		latest := run(t, newSource(everything))
		require.ErrorIs(t, latest().degraded, bpf.ErrPermission)
		assert.True(t, strings.HasPrefix(latest().degraded.Error(),
			"BPF programs loaded before the start have no names: listing BPF programs: not permitted"), latest().degraded)
		require.NotErrorIs(t, latest().degraded, perfring.ErrPermission)

		after := loadAll(t, "after")
		names := listed(t)
		for i, p := range after {
			c := codeOf(t, p)
			for f, start := range c.starts {
				table := eventually(t, latest, fmt.Sprintf("function %d of program %d: %v", f, i, names[start]), func(table *timeline.Table) bool {
					hit, ok := at(table, start, timeline.Present)
					return ok && slices.Contains(names[start], hit.Name().Name)
				})
				hit, _ := at(table, c.ends[f]-1, timeline.Present)
				assert.Equal(t, start, hit.Symbol.Start, "at its last address")
				assert.Equal(t, c.ends[f], hit.Symbol.End())
				if len(names[c.starts[0]]) == 1 { // else the record has not the tag of the event (Linux 5.10)
					assert.Equal(t, timeline.Program{ID: c.id, Tag: c.tag}, programOf(hit.Image))
				}
			}
		}
		for _, p := range before {
			for _, start := range codeOf(t, p).starts {
				_, ok := at(latest().table, start, timeline.Present)
				assert.False(t, ok, "nothing certain is known of it")
			}
		}
		var starts []uint64
		for _, p := range slices.Concat(before, after) {
			starts = append(starts, codeOf(t, p).starts...)
			require.NoError(t, p.Close())
		}
		eventually(t, latest, "all are gone", func(table *timeline.Table) bool {
			return !slices.ContainsFunc(starts, func(start uint64) bool {
				_, ok := at(table, start, timeline.Present)
				return ok
			})
		})
	})
}

// TestWithoutAnything verifies that the error names both remedies.
func TestWithoutAnything(t *testing.T) {
	kerneltest.Limited(t, kerneltest.Limits{
		Need: func(t testing.TB) {
			kerneltest.NeedBPF(t)
			kerneltest.NeedRestrictedPerf(t)
		},
		Drop: []capability.Cap{capability.CAP_SYS_ADMIN, capability.CAP_PERFMON},
	}, func(t *testing.T) {
		err := NewSource(everything).Run(t.Context(), func(symcache.Update) {
			t.Error("there is nothing to publish")
		})
		require.ErrorIs(t, err, perfring.ErrPermission)
		require.ErrorIs(t, err, bpf.ErrPermission)
		require.ErrorContains(t, err, "CAP_PERFMON")
		require.ErrorContains(t, err, "CAP_SYS_ADMIN")
	})
}

// TestWithoutAddresses has the kernel hide addresses. Records still have them.
func TestWithoutAddresses(t *testing.T) {
	kerneltest.Limited(t, kerneltest.Limits{
		Need: func(t testing.TB) {
			kerneltest.NeedBPF(t)
			kerneltest.NeedRestrictedPerf(t) // which shows addresses to all
		},
		Drop: []capability.Cap{capability.CAP_SYSLOG},
	}, testHidden)
}

func testHidden(t *testing.T) {
	t.Helper()
	kerneltest.LoadBPF(t, kerneltest.SmallProgram("before", 1, 0))
	latest := run(t, newSource(everything))
	require.ErrorIs(t, latest().degraded, bpf.ErrHidden)
	require.ErrorIs(t, latest().degraded, kallsyms.ErrRestricted)
	require.ErrorContains(t, latest().degraded, "have no names")
	require.ErrorContains(t, latest().degraded, "CAP_SYSLOG")
	require.ErrorContains(t, latest().degraded, "kernel.kptr_restrict")
	spec := kerneltest.HotProgram(t)
	kerneltest.LoadBPF(t, spec)
	eventually(t, latest, "its three functions are named", func(table *timeline.Table) bool {
		n := 0
		for _, f := range bpfFunctions(table) {
			for _, name := range []string{"_kernelsym_test_hot_program", "_stir", "_shake"} {
				if strings.HasSuffix(f.Name(), name) && f.Start != 0 {
					n++
				}
			}
		}
		return n >= 3
	})
}

// TestRecordsAreTriedAgain refuses records once.
func TestRecordsAreTriedAgain(t *testing.T) {
	kerneltest.NeedBPF(t)
	s := newSource(everything)
	open, refused := s.open, false
	s.open = func() (EventSource, error) {
		if !refused {
			refused = true
			return nil, perfring.ErrMemory
		}
		return open()
	}
	s.retryRecords = time.Millisecond
	latest := run(t, s)
	eventually(t, latest, "records are there", func(*timeline.Table) bool { return latest().degraded == nil })
	checkPrograms(t, latest, loadAll(t, "after"))
	agree(t, latest)
}

// TestEndsWhileItPolls ends a source that has neither records nor work to do.
func TestEndsWhileItPolls(t *testing.T) {
	kerneltest.NeedBPF(t)
	s := NewSource(everything)
	s.open = func() (EventSource, error) { return nil, perfring.ErrMemory }
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, s.Run(ctx, func(symcache.Update) { cancel() }))
}
