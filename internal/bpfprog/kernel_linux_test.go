package bpfprog

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// running is a Source that runs while a test does.
type running struct {
	tables chan *symtab.Table
	last   *symtab.Table
	err    error // what the last table was published with
}

var everything = Options{
	Procfs: "/proc", Sysfs: "/sys", SourceLines: true, Trampolines: true,
	History: symtab.History{TTL: time.Minute, MaxEntries: 1 << 16},
}

type published struct {
	table    *symtab.Table
	degraded error
}

// run starts a source and returns what it published last, whenever asked.
func run(t *testing.T, s *Source) func() published {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	latest := make(chan published, 1)
	first := make(chan struct{})
	go func() {
		isFirst := true
		done <- s.Run(ctx, func(table *symtab.Table, degraded error) {
			select {
			case <-latest:
			default:
			}
			latest <- published{table, degraded}
			if isFirst {
				isFirst = false
				close(first)
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	<-first
	return func() published {
		p := <-latest
		select {
		case latest <- p:
		default: // there is a newer one
		}
		return p
	}
}

// eventually waits until the published table is as wanted.
func eventually(t *testing.T, latest func() published, what string, wanted func(*symtab.Table) bool) *symtab.Table {
	t.Helper()
	var table *symtab.Table
	require.Eventually(t, func() bool {
		table = latest().table
		return wanted(table)
	}, 10*time.Second, time.Millisecond, what)
	return table
}

// agree reports how a table differs from what the kernel lists.
func differences(t *testing.T, table *symtab.Table) (diff []string) {
	t.Helper()
	symbols := kerneltest.ReadParts(t)
	listed := map[uint64]string{}
	for _, s := range symbols {
		if _, ok := listed[s.Addr]; !ok {
			listed[s.Addr] = s.Name
		}
	}
	for addr, name := range listed {
		sym, ok := table.Lookup(addr, symtab.Now)
		if !ok || sym.Start != addr || sym.Name().Name != name {
			diff = append(diff, fmt.Sprintf("%#x is %s, not %+v", addr, name, sym.Function))
		}
	}
	for _, f := range table.Functions() {
		if _, ok := listed[f.Start]; !ok {
			diff = append(diff, fmt.Sprintf("%#x is no %s", f.Start, f.Name()))
		}
	}
	return diff
}

func TestNamesAreThoseOfTheKernel(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.NeedAddresses(t)
	load := func(round string) (programs []*ebpf.Program) {
		for i := range 5 {
			programs = append(programs, kerneltest.LoadBPF(t, kerneltest.SmallProgram(fmt.Sprint(round, i), int32(i/2), 3*i)))
		}
		programs = append(programs, kerneltest.LoadBPF(t, kerneltest.SmallProgram("", 77, 0)))
		hot := kerneltest.HotProgram(t)
		return append(programs, kerneltest.LoadBPF(t, hot), kerneltest.LoadBPF(t, hot))
	}
	before := load("before")
	latest := run(t, NewSource(everything))
	assert.Empty(t, differences(t, latest().table))
	after := load("after")
	const perRound = 6 + 2*3
	table := eventually(t, latest, "all are there", func(table *symtab.Table) bool {
		return table.Symbols()[symtab.OriginBPF] >= 2*perRound
	})
	assert.Empty(t, differences(t, table))
	checkFunctions(t, table, slices.Concat(before, after))
	for _, p := range slices.Concat(before, after) {
		require.NoError(t, p.Close())
	}
	table = eventually(t, latest, "all are gone", func(table *symtab.Table) bool {
		return table.Symbols()[symtab.OriginBPF] == 0
	})
	assert.Empty(t, differences(t, table))
}

// checkFunctions checks every address of the programs' functions.
func checkFunctions(t *testing.T, table *symtab.Table, programs []*ebpf.Program) {
	t.Helper()
	for _, p := range programs {
		info, err := p.Info()
		require.NoError(t, err)
		addrs, _ := info.JitedKsymAddrs()
		lens, _ := info.JitedFuncLens()
		require.NotEmpty(t, addrs)
		id, _ := info.ID()
		for i, start := range addrs {
			end := uint64(start) + uint64(lens[i])
			for addr := uint64(start); addr < end; addr++ {
				sym, ok := table.Lookup(addr, symtab.Now)
				require.True(t, ok)
				require.Equal(t, uint64(start), sym.Start)
				require.Equal(t, end, sym.End)
				require.NotNil(t, sym.Function.Program, "%s", sym.Name().Name)
				require.Equal(t, symtab.Program{ID: uint32(id), Type: "socket_filter", Tag: info.Tag}, *sym.Function.Program)
			}
			if sym, ok := table.Lookup(end, symtab.Now); ok {
				require.Equal(t, end, sym.Start, "the byte after")
			}
		}
	}
}
