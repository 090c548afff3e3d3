// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A crowd is a kernel with many BPF programs that were loaded before the source started. It lists
// them at once, so the time of system calls is not measured.
type crowd struct {
	*synthetic
	count uint32
	lost  bool          // the next batch reports lost records
	began time.Duration // CPU time when the last listing of programs began
}

func newCrowd(programs int) *crowd {
	c := &crowd{synthetic: newSynthetic(0), count: uint32(programs)}
	c.loadAll(programs) // these records are not read
	return c
}

// Next implements [bpfprog.ProgramReader].
func (c *crowd) Next(after uint32) (uint32, error) {
	if after == 0 {
		c.began = cpu()
	}
	if after == c.count {
		return 0, io.EOF
	}
	return after + 1, nil
}

// Wait implements [bpfprog.EventSource].
func (c *crowd) Wait(ctx context.Context, deadline time.Time) error {
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(deadline)):
	}
	return ctx.Err()
}

// Poll implements [bpfprog.EventSource].
func (c *crowd) Poll() perfring.Batch {
	b := c.synthetic.Poll()
	if c.lost {
		c.lost = false
		b.Blind = []perfring.Interval{{From: b.At - 1, To: b.At}}
	}
	return b
}

// benchCrowd measures the cost of the first table of many programs, of each message while nothing
// changes, and of listing all programs again after records were lost.
func benchCrowd() (err error) {
	const many = 50_000
	procfs, err := os.MkdirTemp("", "kernelsym-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(procfs) }()
	if err := os.WriteFile(filepath.Join(procfs, "kallsyms"), nil, 0o600); err != nil {
		return err
	}
	c := newCrowd(many)
	source := bpfprog.NewSourceFrom(bpfprog.Options{Procfs: procfs, History: timeline.Limits{TTL: time.Hour, MaxEntries: 1 << 16}},
		func() (bpfprog.EventSource, error) { return c, nil }, c)
	var took time.Duration
	held, _ := memory(func() any {
		took, err = c.listOnce(source)
		return source
	})
	if err != nil {
		return err
	}
	report("node50k_list_cpu_ms", float64(took.Microseconds())/1000)
	report("node50k_bytes", held)
	c.lost = true
	if took, err = c.listOnce(source); err != nil {
		return err
	}
	report("node50k_list_again_cpu_ms", float64(took.Microseconds())/1000)
	return benchRefresh(source)
}

// benchRefresh measures what a source does for each message with kernel frames.
func benchRefresh(source *bpfprog.Source) error {
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error)
	var once sync.Once
	go func() { ended <- source.Run(ctx, func(symcache.Update) { once.Do(func() { close(ready) }) }) }()
	select {
	case <-ready:
	case err := <-ended:
		stop()
		return err
	}
	best := time.Hour
	for range 1000 {
		began := wall()
		source.Refresh()
		best = min(best, wall()-began)
	}
	report("node50k_message_us", float64(best.Nanoseconds())/1000)
	stop()
	return <-ended
}

// listOnce runs a source until it has listed all programs, and returns the CPU time for that.
func (c *crowd) listOnce(source *bpfprog.Source) (took time.Duration, err error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	listed := 0
	err = source.Run(ctx, func(u symcache.Update) {
		if c.began == 0 || took != 0 {
			return
		}
		took, listed = cpu()-c.began, u.Table.Count()[timeline.OriginBPF].Symbols
		stop()
	})
	if err == nil && listed != int(c.count) {
		err = fmt.Errorf("%d of %d programs are listed", listed, c.count)
	}
	c.began = 0
	return took, err
}
