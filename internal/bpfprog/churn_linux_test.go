// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A churner loads and unloads programs on one CPU as fast as it can.
type churner struct {
	cpu     int
	specs   []*ebpf.ProgramSpec // those to load; some have equal tags
	loads   int
	loaded  *atomic.Int64   // number of loads by all churners; may be nil
	kept    []*ebpf.Program // loaded and not yet unloaded
	lived   map[uint64]uint32
	reused  int // addresses that another program had before
	unquiet error
}

// maxKept is the number of programs that a churner keeps at most.
const maxKept = 24

func (c *churner) run() {
	runtime.LockOSThread() // never unlocked: the thread, whose CPU affinity changes, ends with the goroutine
	var set unix.CPUSet
	set.Set(c.cpu)
	if c.unquiet = unix.SchedSetaffinity(0, &set); c.unquiet != nil {
		return
	}
	r := rand.New(rand.NewPCG(uint64(c.cpu), 7))
	var reader bpf.Reader
	for range c.loads {
		p, err := ebpf.NewProgram(c.specs[r.IntN(len(c.specs))])
		if err != nil {
			c.unquiet = err
			return
		}
		if c.loaded != nil {
			c.loaded.Add(1)
		}
		c.note(&reader, p)
		c.kept = append(c.kept, p)
		for len(c.kept) > r.IntN(maxKept)+1 {
			i := r.IntN(len(c.kept))
			_ = c.kept[i].Close()
			c.kept[i] = c.kept[len(c.kept)-1]
			c.kept = c.kept[:len(c.kept)-1]
		}
	}
}

// note records the addresses of a program.
func (c *churner) note(reader *bpf.Reader, p *ebpf.Program) {
	info, err := p.Info()
	if err != nil {
		c.unquiet = err
		return
	}
	id, _ := info.ID()
	program, err := reader.Program(uint32(id), 0)
	if err != nil {
		c.unquiet = err
		return
	}
	addr := program.Functions[0].Addr
	if was, ok := c.lived[addr]; ok && was != program.ID {
		c.reused++
	}
	c.lived[addr] = program.ID
}

// lazy is an event source that pauses now and then, until its rings have overflowed or the churners are done.
type lazy struct {
	*perfring.Reader
	loaded *atomic.Int64
	busy   *atomic.Bool
	next   int64 // when it rests
}

func (l *lazy) Wait(ctx context.Context, deadline time.Time) error {
	if l.loaded.Load() >= l.next {
		for l.busy.Load() && ctx.Err() == nil && l.loaded.Load() < l.next+overflow {
			time.Sleep(time.Millisecond)
		}
		l.next = l.loaded.Load() + 2*overflow
	}
	return l.Reader.Wait(ctx, deadline)
}

// overflow is a number of programs whose records do not fit into two rings of one page.
var overflow = int64(100 * os.Getpagesize() / 4096)

// churnSpecs returns small programs of several lengths, and large ones with functions.
func churnSpecs(t *testing.T) (specs []*ebpf.ProgramSpec) {
	for i := range 40 {
		specs = append(specs, smallProgram(fmt.Sprint("churn", i), int32(i/2), i%5*60))
	}
	return append(specs, kerneltest.HotProgram(t))
}

// lasting has the names that the kernel lists for programs that stay loaded, by address.
type lasting map[uint64][]string

func loadLasting(t *testing.T) lasting {
	programs := []*ebpf.Program{kerneltest.LoadBPF(t, kerneltest.HotProgram(t))}
	for i := range 20 {
		programs = append(programs, kerneltest.LoadBPF(t, smallProgram(fmt.Sprint("lasting", i), int32(i/2), i%5*60)))
	}
	names, all := listed(t), lasting{}
	for _, p := range programs {
		for _, start := range codeOf(t, p).starts {
			require.NotEmpty(t, names[start])
			all[start] = names[start]
		}
	}
	return all
}

// check checks that the table has these names.
func (l lasting) check(t *testing.T, table *timeline.Table) {
	t.Helper()
	for addr, names := range l {
		hit, ok := at(table, addr, timeline.Present)
		require.True(t, ok, names)
		require.Contains(t, names, hit.Name().Name)
		hit, ok = at(table, hit.Symbol.End()-1, timeline.Present)
		require.True(t, ok, names)
		require.Contains(t, names, hit.Name().Name)
	}
}

// TestChurn loads and unloads programs from two CPUs. At each quiet moment the table equals the kernel's
// list, programs that stay loaded throughout never change their names, and lost records are counted.
func TestChurn(t *testing.T) {
	kerneltest.NeedBPF(t)
	quiets, loads := kerneltest.Sized(5, 2), kerneltest.Sized(10_000, 600)
	loads = max(loads, 3*quiets*int(overflow))
	var loaded atomic.Int64
	var busy atomic.Bool
	specs := churnSpecs(t)
	last := loadLasting(t)
	opts := everything
	opts.Trampolines = false
	s := NewSource(opts)
	s.open = func() (EventSource, error) {
		perf := perfring.SymbolOptions(opts.Sysfs)
		perf.BytesPerCPU = 1 // a page
		r, err := perfring.Open(perf)
		return &lazy{Reader: r, loaded: &loaded, busy: &busy}, err
	}
	latest := run(t, s)

	var churners []*churner
	for cpu := range 2 {
		churners = append(churners, &churner{
			cpu: cpu % runtime.NumCPU(), specs: specs, loads: loads / quiets / 2, loaded: &loaded, lived: map[uint64]uint32{},
		})
	}
	reused := func() (n int) {
		for _, c := range churners {
			n += c.reused
		}
		return n
	}
	// The kernel frees the memory of programs late, so it may take a while until an address is used again.
	for round := 0; round < quiets || reused() == 0 && round < 10*quiets; round++ {
		var wait sync.WaitGroup
		busy.Store(true)
		for _, c := range churners {
			wait.Go(c.run)
		}
		go func() {
			wait.Wait()
			busy.Store(false)
		}()
		for busy.Load() {
			last.check(t, latest().table)
		}
		for _, c := range churners {
			require.NoError(t, c.unquiet)
		}
		agreeOn(t, latest, false)
		last.check(t, latest().table)
	}
	for _, c := range churners {
		for _, p := range c.kept {
			require.NoError(t, p.Close())
		}
	}
	agreeOn(t, latest, false)
	t.Logf("%d addresses were used again; %d records were lost, programs were listed %d times",
		reused(), latest().LostRecords, latest().Resyncs)
	assert.Positive(t, reused())
	assert.Positive(t, latest().LostRecords)
	assert.Positive(t, latest().Resyncs)
	assert.NoError(t, latest().degraded)
}
