// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/collector/receiver/receiverhelper/xreceiverhelper"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/sender"
	"github.com/kernelsym/kernelsym/kernelstackreceiver/internal/metadata"
)

// kernelStacks samples kernel stacks, of threads that run and of threads that wait, and sends them to the next component.
// Its methods are safe for concurrent use.
type kernelStacks struct {
	config    *Config
	next      xconsumer.Profiles
	logger    *zap.Logger
	version   string
	telemetry *metadata.TelemetryBuilder
	report    *xreceiverhelper.ObsReport // the metrics and spans that all receivers have
	warnings  *rate.Limiter

	mu     sync.Mutex // held by Start and Shutdown
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newReceiver(set receiver.Settings, config *Config, next xconsumer.Profiles) (*kernelStacks, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	report, err := xreceiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID: set.ID, Transport: transport, LongLivedCtx: true, ReceiverCreateSettings: set,
	})
	if err != nil {
		return nil, err
	}
	return &kernelStacks{
		config:    config,
		next:      next,
		logger:    set.Logger,
		version:   set.BuildInfo.Version,
		telemetry: telemetry,
		report:    report,
		warnings:  rate.NewLimiter(rate.Every(time.Minute), 10),
	}, nil
}

// Start starts sampling. If it lacks the privilege, it reports that as the component's status
// and tries again: it must not stop a collector that has other work. A second call does
// nothing.
func (r *kernelStacks) Start(ctx context.Context, host component.Host) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ctx ends with the start
	r.cancel = cancel
	status := newStatus(host)
	sampling := func(what string, options kernelstack.Options, beside func(context.Context), details ...zap.Field) func(context.Context) {
		of := status.of(what)
		return func(ctx context.Context) { r.run(ctx, of, r.sampling(what, options, beside, details)) }
	}
	var waits func(context.Context)
	if r.config.OffCPU.Enabled {
		waits = sampling("off-CPU time", r.config.waitOptions(), nil) // its rings take as much memory as is left
	}
	stacks := sampling("kernel stacks", r.config.options(), waits, zap.Int("frequency", r.config.Frequency))
	r.done.Go(func() { stacks(ctx) })
	return nil
}

// Shutdown stops sampling and sends the remaining samples.
func (r *kernelStacks) Shutdown(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
		r.done.Wait()
		r.cancel = nil
	}
	return nil
}

// run calls sample until ctx is done. The error of sample says why it cannot sample.
func (r *kernelStacks) run(
	ctx context.Context, status statusOf, sample func(ctx context.Context, started func(missing ...error)) error,
) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = time.Second, time.Minute
	reported := ""
	for {
		began := time.Now()
		err := sample(ctx, func(missing ...error) {
			if reported != "" {
				r.logger.Info("Sampling " + status.what + " again")
				reported = ""
			}
			if err := errors.Join(missing...); err != nil {
				r.logger.Warn("Samples of "+status.what+" are incomplete", zap.Error(err))
			}
			status.report(missing...)
		})
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > retry.MaxInterval { // otherwise sampling has not really worked
			retry.Reset()
		}
		if err.Error() != reported {
			reported = err.Error()
			r.logger.Error("Cannot sample "+status.what, zap.Error(err))
			status.report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry.NextBackOff()):
		}
	}
}

// sampling returns a function that samples until ctx is done or the rings cannot be read. It calls started when they
// are open; the errors say which samples will be missing. The details are logged then, and beside runs for as long as the
// rings are open.
func (r *kernelStacks) sampling(
	what string, options kernelstack.Options, beside func(context.Context), details []zap.Field,
) func(ctx context.Context, started func(missing ...error)) error {
	return func(ctx context.Context, started func(missing ...error)) error {
		s := kernelstack.Sampler{
			Options:  options,
			Scope:    metadata.ScopeName,
			Version:  r.version,
			Resource: resource(r.config.Procfs, r.config.Sysfs, os.Getenv),
			Send:     r.send,
			Beside:   beside,
			Started: func(event string, missing kernelstack.Missing) {
				r.logger.Info("Sampling "+what, append([]zap.Field{zap.String("event", event)}, details...)...)
				started(missing.All()...)
			},
		}
		return s.Run(ctx)
	}
}

// transport and format describe the samples' origin in the receiver's metrics and spans.
const (
	transport = "perf"
	format    = "perf_event"
)

// sendTimeout is the time that the next component has to accept a message, even when sampling
// has been stopped.
const sendTimeout = 5 * time.Second

// send counts the content of a message and sends it to the next component.
func (r *kernelStacks) send(ctx context.Context, m *kernelstack.Message) {
	r.telemetry.ReceiverKernelstackLostRecords.Add(ctx, int64(m.Lost))
	r.telemetry.ReceiverKernelstackLostNames.Add(ctx, int64(m.LostNames))
	r.telemetry.ReceiverKernelstackThrottled.Add(ctx, int64(m.Throttled))
	r.telemetry.ReceiverKernelstackNoStack.Add(ctx, int64(m.NoStack))
	r.telemetry.ReceiverKernelstackNoContainer.Add(ctx, int64(m.NoContainer))
	r.telemetry.ReceiverKernelstackWaits.Add(ctx, int64(m.Waits))
	r.telemetry.ReceiverKernelstackShortWaits.Add(ctx, int64(m.Short))
	for cause, waits := range map[string]int{
		"records": m.Unknown.Records, "blind": m.Unknown.Blind, "no_return": m.Unknown.NoReturn, "threads": m.Unknown.Threads,
	} {
		r.telemetry.ReceiverKernelstackLostWaits.Add(ctx, int64(waits), metric.WithAttributes(attribute.String("cause", cause)))
	}
	r.telemetry.ReceiverKernelstackOffCPUPause.Add(ctx, m.Paused.Seconds())
	for _, pd := range m.Profiles {
		r.sendProfiles(context.WithoutCancel(ctx), pd)
	}
}

func (r *kernelStacks) sendProfiles(ctx context.Context, pd pprofile.Profiles) {
	ctx, cancel := context.WithTimeout(sender.WithinProcess(ctx), sendTimeout)
	defer cancel()
	all, byType := pd.SampleCount(), xreceiverhelper.ProfileSampleCountsByType(pd) // before the next component changes it
	ctx = r.report.StartProfilesOp(ctx)
	err := r.next.ConsumeProfiles(ctx, pd)
	r.report.EndProfilesOpBySampleType(ctx, format, byType, err)
	if err != nil && r.warnings.Allow() {
		r.logger.Warn("The next component refused kernel stacks", zap.Int("samples", all), zap.Error(err))
	}
}
