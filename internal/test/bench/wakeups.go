// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// runSources runs all sources, as a collector does, until in ends. It prints a line when all have
// published.
func runSources(in io.Reader) {
	opts := sources.Everything("/proc", "/sys")
	opts.Modules.Settle = 50 * time.Millisecond
	opts.History = timeline.Limits{TTL: 10 * time.Minute, MaxEntries: 1 << 16}
	list := sources.List(opts)
	clock := realtime.NewTracker(time.Hour, func() realtime.Reading {
		boot, offset, err := perfring.Boottime.UnixOffset()
		return realtime.Reading{Boot: boot, Offset: offset, Error: err}
	})
	cache := symcache.Start(zap.NewNop(), clock, list...)
	defer cache.Stop()
	for len(cache.Snapshot().Tables()) < len(list) {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, in)
}

// benchWakeups measures how often the threads of a process that runs the sources with perf events
// go to sleep: when nothing happens, and while 20 programs are loaded and 20 unloaded each second.
func benchWakeups(rounds int) (err error) {
	child := exec.CommandContext(context.Background(), "/proc/self/exe", "-sources")
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close(), child.Wait()) }()
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // until everything that it reads at the start was read
	idle, err := wakeups(child.Process.Pid, 0, duration(rounds))
	if err != nil {
		return err
	}
	const each = 20
	ctx, stop := context.WithCancel(context.Background())
	churning := make(chan error)
	go func() { churning <- churn(ctx, each) }()
	// Each load and each unload makes two records. The machine may be late with some.
	busy, err := wakeups(child.Process.Pid, 4*each+4, duration(rounds))
	stop()
	if err := errors.Join(err, <-churning); err != nil {
		return err
	}
	report("wakeups_idle", idle)
	report("wakeups_churn", busy)
	return nil
}

// churn loads and unloads that many programs a second.
func churn(ctx context.Context, each int) error {
	tick := time.NewTicker(time.Second / time.Duration(each))
	defer tick.Stop()
	for i := int32(0); ctx.Err() == nil; i++ {
		p, err := loadProgram(i)
		if err != nil {
			return err
		}
		<-tick.C
		if err := p.Close(); err != nil {
			return err
		}
	}
	return nil
}

// wakeups returns how often a second the threads of a process go to sleep. Others may use the
// machine, so a second in which the kernel announced more loads and unloads than that counts only
// if there are no quieter ones.
func wakeups(pid, records int, during time.Duration) (float64, error) {
	wanted := int(during.Seconds())
	most := 4 * wanted
	rings, err := perfring.Open(perfring.SymbolOptions("/sys"))
	if err != nil {
		return 0, err
	}
	defer rings.Close() //nolint:errcheck // nothing was written
	var calm, all []int
	for len(calm) < wanted && len(all) < most {
		before, err := voluntarySwitches(pid)
		if err != nil {
			return 0, err
		}
		time.Sleep(time.Second)
		after, err := voluntarySwitches(pid)
		if err != nil {
			return 0, err
		}
		all = append(all, after-before)
		if len(rings.Poll().Records) <= records {
			calm = append(calm, after-before)
		}
	}
	if len(calm) > 0 {
		all = calm
	}
	sum := 0
	for _, n := range all {
		sum += n
	}
	return float64(sum) / float64(len(all)), nil
}

func voluntarySwitches(pid int) (sum int, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		status, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return 0, err
		}
		_, rest, _ := bytes.Cut(status, []byte("\nvoluntary_ctxt_switches:"))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		n, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}
