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

	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// runSources runs all sources, as a collector does, until in ends. It says on standard
// output when each has published.
func runSources(in io.Reader) {
	opts := sources.Everything("/proc", "/sys")
	opts.Modules.Settle = 50 * time.Millisecond
	opts.History = symtab.Limits{TTL: 10 * time.Minute, MaxEntries: 1 << 16}
	list := sources.List(opts)
	cache := symcache.Start(zap.NewNop(), nil, list...)
	defer cache.Stop()
	for len(cache.Snapshot().Tables()) < len(list) {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, in)
}

// benchWakeups measures how often the threads of a process that runs the sources, with
// perf events, go to sleep: when nothing happens, and with 20 programs loaded and 20
// unloaded each second.
func benchWakeups() (err error) {
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
	const during = 10 * time.Second
	time.Sleep(2 * time.Second) // until it has read what it reads at the start
	idle, err := wakeups(child.Process.Pid, func() error {
		time.Sleep(during)
		return nil
	})
	if err != nil {
		return err
	}
	churn, err := wakeups(child.Process.Pid, func() error { return churn(during, 20) })
	if err != nil {
		return err
	}
	report("wakeups_idle", float64(idle)/during.Seconds())
	report("wakeups_churn", float64(churn)/during.Seconds())
	return nil
}

// churn loads so many programs a second, and unloads them.
func churn(during time.Duration, each int) error {
	tick := time.NewTicker(time.Second / time.Duration(each))
	defer tick.Stop()
	for i := range int(during.Seconds()) * each {
		p, err := loadProgram(int32(i))
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

// wakeups returns how often the threads of a process went to sleep while f runs.
func wakeups(pid int, f func() error) (int, error) {
	before, err := voluntarySwitches(pid)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := voluntarySwitches(pid)
	return after - before, err
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
