// SPDX-License-Identifier: Apache-2.0

// Command soak implements `make soak`: it runs the collector for a while under a steady flow of
// profiles, while BPF programs and modules come and go, and observes it. It fails if a name is
// wrong, or if memory, open files or goroutines keep growing. It prints what the collector used.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/cilium/ebpf/rlimit"
)

// options are the options of the command line.
type options struct {
	collector string // file
	duration  time.Duration
	idle      bool // run without profiles first, for a fifth of the duration
	modules   bool // load and unload modules, too
	say       func(string)
}

func main() {
	o := options{idle: true}
	flag.StringVar(&o.collector, "collector", "build/otelcol-kernelsym", "the collector")
	flag.DurationVar(&o.duration, "duration", 10*time.Minute, "how long to run")
	flag.BoolVar(&o.modules, "modules", false, "load and unload modules, too: only where nothing else does")
	flag.Parse()
	o.say = func(line string) { fmt.Println(line) }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// The configurations of the two parts. The history is short, so that it fills up soon.
const (
	common = `
processors: {kernelsym: {addresses: keep, history: {ttl: 10s}}}
exporters: {otlp_grpc: {endpoint: %[2]q, compression: none, tls: {insecure: true}}}
extensions: {pprof: {endpoint: %[3]q}}
service:
  extensions: [pprof]
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %[4]s}}}}]}}
`
	background = `
receivers: {otlp: {protocols: {grpc: {endpoint: %[1]q}}}}` + common + `  pipelines: {profiles: {receivers: [otlp], processors: [kernelsym], exporters: [otlp_grpc]}}
`
	flowing = `
receivers: {otlp: {protocols: {grpc: {endpoint: %[1]q}}}, kernelstack: {interval: 1s}}` + common + `  pipelines: {profiles: {receivers: [otlp, kernelstack], processors: [kernelsym], exporters: [otlp_grpc]}}
`
)

// run runs the collector with profiles, and for some time before that without them.
func run(ctx context.Context, o options) error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return fmt.Errorf("not root? %w", err)
	}
	truth, err := readTruth()
	if err != nil {
		return err
	}
	churn, err := o.churn()
	if err != nil {
		return err
	}
	share := 0.0
	if o.idle {
		if share, err = o.background(ctx, newFlow(truth, false, churn...)); err != nil {
			return err
		}
	}
	busy, err := spend(ctx, o.collector, flowing, o.duration*4/5, newFlow(truth, true, churn...))
	if err != nil {
		return err
	}
	profiles := float64(busy.flow.profiles.Load())
	perThousand := 1000 * (busy.cpu.Seconds() - share*busy.took.Seconds()) / profiles
	o.say(fmt.Sprintf("flow: %.0f profiles, most of %d kernel frames; for 1,000 profiles %.3f s of a core to receive, name and send them; %.3f s passed in naming",
		profiles, framesPerProfile, perThousand, 1000*busy.rewriting/profiles))
	return errors.Join(busy.flow.check(o.say), busy.checkGrowth(o.say))
}

// background returns how much of a core the collector uses without profiles.
func (o options) background(ctx context.Context, f *flow) (share float64, err error) {
	r, err := spend(ctx, o.collector, background, o.duration/5, f)
	if err != nil {
		return 0, err
	}
	share = r.cpu.Seconds() / r.took.Seconds()
	line := fmt.Sprintf("background: %.2f %% of a core, while a second", 100*share)
	for _, c := range f.churn {
		line += fmt.Sprintf(" %.1f %s", float64(c.visits.Load())/r.took.Seconds(), c.name)
	}
	o.say(line + " come and go")
	return share, nil
}

// churn returns the kinds of code that come and go.
func (o options) churn() ([]*churn, error) {
	all := []*churn{bpfChurn()}
	if !o.modules {
		return all, nil
	}
	modules, err := moduleChurn()
	return append(all, modules), err
}

// A result has the observations of a run of the collector.
type result struct {
	flow    *flow
	took    time.Duration
	cpu     time.Duration
	samples []sample

	rewriting float64 // seconds, by the processor's own metric
}

// spend runs the collector for the given duration.
func spend(ctx context.Context, binary, config string, duration time.Duration, f *flow) (*result, error) {
	c, err := start(ctx, binary, config)
	if err != nil {
		return nil, err
	}
	r := &result{flow: f}
	err = c.ready(ctx, f)
	if err == nil {
		err = r.observe(ctx, c, duration)
	}
	if stopErr := c.stop(); stopErr != nil || err != nil {
		return nil, fmt.Errorf("%w\n%s", errors.Join(err, stopErr), c.Log())
	}
	return r, nil
}

// observe samples the collector once a second while the flow goes on: for the given duration, and
// longer if there is not yet something of each kind to check.
func (r *result) observe(ctx context.Context, c *collector, duration time.Duration) error {
	const enough, most = 8, 5 * time.Minute
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- r.flow.run(ctx, c)
	}()
	before, err := c.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	isOver := func() bool {
		took := time.Since(began)
		return took >= duration && (len(r.samples) >= enough && r.flow.isComplete() || took >= duration+most)
	}
	for ctx.Err() == nil && !isOver() {
		s, err := c.sample()
		if err != nil {
			return err
		}
		r.samples = append(r.samples, s)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	cancel()
	r.took = time.Since(began)
	after, err := c.cpu()
	r.cpu = after - before
	err = errors.Join(err, <-ended)
	const atRest = 3 // seconds in which nothing is in flight: what has grown by then has leaked
	for i := 0; i < atRest && err == nil; i++ {
		time.Sleep(time.Second)
		var s sample
		s, err = c.sample()
		r.samples = append(r.samples, s)
	}
	if err == nil {
		r.rewriting, err = c.metric("rewrite_duration_sum")
	}
	if err == nil {
		r.flow.blind, err = c.metric("blind_time")
	}
	return err
}
