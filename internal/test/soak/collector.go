// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// A collector is a running collector, with a connection to it and one from it.
type collector struct {
	*otelcol.Process
	dir     string
	pprof   string // address
	metrics string // address
	backend *otelcol.Backend
	client  *otelcol.Client
	receive atomic.Pointer[func(pprofile.Profiles)]
}

// start starts a collector. The configuration is a format for the address to listen on, the address
// to send to, the address of pprof, and the port of the metrics.
func start(ctx context.Context, binary, config string) (*collector, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var addresses [3]string
	for i := range addresses {
		if addresses[i], err = otelcol.FreeAddress(ctx); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return nil, err
	}
	c := &collector{dir: dir, pprof: addresses[1], metrics: addresses[2]}
	c.to(func(pprofile.Profiles) {})
	c.backend = otelcol.Serve(listener, func(pd pprofile.Profiles) { (*c.receive.Load())(pd) })
	if c.client, err = otelcol.NewClient(addresses[0]); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(c.metrics)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, addresses[0], listener.Addr(), c.pprof, port), 0o600); err != nil {
		return nil, err
	}
	c.Process, err = otelcol.Start(exec.CommandContext(context.WithoutCancel(ctx), binary,
		otelcol.FeatureGates, "--config", file))
	return c, err
}

// to passes what the collector sends to a function, which several goroutines call.
func (c *collector) to(receive func(pprofile.Profiles)) { c.receive.Store(&receive) }

// ready waits until kernel frames come back with names, and has the flow receive them
// from then on.
func (c *collector) ready(ctx context.Context, f *flow) error {
	var named atomic.Bool
	c.to(func(pd pprofile.Profiles) {
		if pd.Dictionary().FunctionTable().Len() > 1 {
			named.Store(true)
		}
	})
	err := c.Eventually(ctx, "frames get names", func() error {
		if err := c.client.Send(ctx, f.truth.message("")); err != nil {
			return err
		}
		if !named.Load() {
			return errors.New("none yet")
		}
		return nil
	})
	c.to(f.receive)
	return err
}

// stop ends the collector, and returns an error if it does not end cleanly.
func (c *collector) stop() error {
	err := errors.Join(c.Stop(), c.client.Close(), os.RemoveAll(c.dir))
	c.backend.Stop()
	return err
}

// A sample is the size of the collector.
type sample struct {
	memory            int // resident bytes
	files, goroutines int
}

func (c *collector) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(c.PID()), name)
}

func (c *collector) sample() (s sample, err error) {
	status, err := os.ReadFile(c.proc("status"))
	if err != nil {
		return s, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &s.memory); err != nil {
		return s, err
	}
	s.memory <<= 10
	files, err := os.ReadDir(c.proc("fd"))
	if err != nil {
		return s, err
	}
	s.files = len(files)
	text, err := get("http://" + c.pprof + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return s, err
	}
	_, err = fmt.Sscanf(text, "goroutine profile: total %d", &s.goroutines)
	return s, err
}

// cpu returns the CPU time that the collector has used.
func (c *collector) cpu() (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	stat, err := os.ReadFile(c.proc("stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, errors.Join(userErr, systemErr)
}

// checkGrowth compares the last quarter of the time with the second one. It compares the minima,
// because data in flight comes on top.
func (r *result) checkGrowth(say func(string)) error {
	n := len(r.samples) / 4
	if n == 0 {
		return errors.New("too short to see growth")
	}
	var errs []error
	for _, what := range []struct {
		name      string
		of        func(sample) int
		tolerance func(before int) int
	}{
		{"memory", func(s sample) int { return s.memory }, func(before int) int { return before/4 + 16<<20 }},
		{"files", func(s sample) int { return s.files }, func(int) int { return 4 }},
		{"goroutines", func(s sample) int { return s.goroutines }, func(int) int { return 4 }},
	} {
		before, after := least(r.samples[n:2*n], what.of), least(r.samples[3*n:], what.of)
		say(fmt.Sprintf("%s: %d, then %d", what.name, before, after))
		if after > before+what.tolerance(before) {
			errs = append(errs, fmt.Errorf("%s grows: %d, then %d", what.name, before, after))
		}
	}
	return errors.Join(errs...)
}

func least(samples []sample, of func(sample) int) int {
	return of(slices.MinFunc(samples, func(a, b sample) int { return cmp.Compare(of(a), of(b)) }))
}
