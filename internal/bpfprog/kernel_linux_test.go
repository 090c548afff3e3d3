// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// smallProgram describes a small program whose type takes CAP_BPF to load.
func smallProgram(name string, n int32, pad int) *ebpf.ProgramSpec {
	spec := kerneltest.SmallProgram(name, n, pad)
	spec.Type = ebpf.SchedCLS
	return spec
}

// loadAll loads programs of all kinds: without BTF, with several lengths, some with equal tags, without a
// name, and, twice the same, with BTF and functions.
func loadAll(t *testing.T, round string) (programs []*ebpf.Program) {
	t.Helper()
	for i := range 5 {
		programs = append(programs, kerneltest.LoadBPF(t, smallProgram(fmt.Sprint(round, i), int32(i/2), i/2*3)))
	}
	programs = append(programs, kerneltest.LoadBPF(t, smallProgram("", 77, 0)))
	hot := kerneltest.HotProgram(t)
	return append(programs, kerneltest.LoadBPF(t, hot), kerneltest.LoadBPF(t, hot))
}

func TestNamesAreThoseOfTheKernel(t *testing.T) {
	kerneltest.NeedBPF(t)
	before := loadAll(t, "before")
	latest := run(t, NewSource(everything))
	checkPrograms(t, latest, before)
	agree(t, latest)
	after := loadAll(t, "after")
	all := slices.Concat(before, after)
	checkPrograms(t, latest, all)
	agree(t, latest)

	var ids []uint32
	for _, p := range all {
		ids = append(ids, codeOf(t, p).id)
		require.NoError(t, p.Close())
	}
	eventually(t, latest, "all are gone", func(table *timeline.Table) bool {
		return !slices.ContainsFunc(bpfFunctions(table), func(f *timeline.Image) bool {
			return f.Program != nil && slices.Contains(ids, f.Program.ID)
		})
	})
	agree(t, latest)
}

// TestWhileTheBaselineIsRead loads and unloads programs while a source starts, again and again.
func TestWhileTheBaselineIsRead(t *testing.T) {
	kerneltest.NeedBPF(t)
	for i := range 100 {
		kerneltest.LoadBPF(t, smallProgram("baseline", int32(i), i)) // to have something to read
	}
	for round := range kerneltest.Sized(10, 2) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			var kept []*ebpf.Program
			stop := make(chan struct{})
			var wait sync.WaitGroup
			wait.Go(func() {
				for n := int32(0); ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					p, err := ebpf.NewProgram(smallProgram("meanwhile", n/3, int(n%7*40)))
					if err != nil {
						continue // the test fails for want of programs
					}
					if len(kept) < 20 && n%10 == 0 {
						kept = append(kept, p)
					} else {
						_ = p.Close()
					}
				}
			})
			latest := run(t, NewSource(everything))
			close(stop)
			wait.Wait()
			for _, p := range kept {
				t.Cleanup(func() { _ = p.Close() })
			}
			require.NotEmpty(t, kept)
			checkPrograms(t, latest, kept)
			agree(t, latest)
		})
	}
}

// code has the addresses that the kernel gives for a program.
type code struct {
	id     uint32
	tag    string
	starts []uint64
	ends   []uint64
}

func codeOf(t *testing.T, p *ebpf.Program) (c code) {
	t.Helper()
	info, err := p.Info()
	require.NoError(t, err)
	addrs, _ := info.JitedKsymAddrs()
	lens, _ := info.JitedFuncLens()
	require.NotEmpty(t, addrs)
	id, _ := info.ID()
	c.id, c.tag = uint32(id), info.Tag
	for i, addr := range addrs {
		c.starts = append(c.starts, uint64(addr))
		c.ends = append(c.ends, uint64(addr)+uint64(lens[i]))
	}
	return c
}

// typeOf returns the name of a program's type.
func typeOf(t *testing.T, p *ebpf.Program) string {
	t.Helper()
	name := map[ebpf.ProgramType]string{ebpf.SocketFilter: "socket_filter", ebpf.SchedCLS: "sched_cls"}[p.Type()]
	require.NotEmpty(t, name)
	return name
}

// checkPrograms waits until the programs are known, and checks every address of their functions and the byte
// after each.
func checkPrograms(t *testing.T, latest func() published, programs []*ebpf.Program) {
	t.Helper()
	for _, p := range programs {
		c := codeOf(t, p)
		want := timeline.Program{ID: c.id, Type: typeOf(t, p), Tag: c.tag}
		table := eventually(t, latest, "the program is known", func(table *timeline.Table) bool {
			hit, ok := at(table, c.starts[0], timeline.Present)
			return ok && programOf(hit.Image) == want
		})
		main, _ := at(table, c.starts[0], timeline.Present)
		require.Equal(t, c.tag, main.Image.Tag(), "up to Linux 6.0, the kernel has another symbol there, too")
		for i, start := range c.starts {
			for addr := start; addr < c.ends[i]; addr++ {
				hit, ok := at(table, addr, timeline.Present)
				if !ok || hit.Symbol.Start != start || hit.Symbol.End() != c.ends[i] || programOf(hit.Image) != want {
					t.Fatalf("%#x is %+v, not in %#x-%#x of %+v", addr, hit.Symbol, start, c.ends[i], want)
				}
			}
			if hit, ok := at(table, c.ends[i], timeline.Present); ok {
				require.Equal(t, c.ends[i], hit.Symbol.Start, "the byte after")
			}
		}
	}
}
