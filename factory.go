package kernelsym

import (
	"context"
	"os"
	"runtime"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper/xprocessorhelper"
	"go.opentelemetry.io/collector/processor/xprocessor"

	"github.com/kernelsym/kernelsym/internal/metadata"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/kernelsymprocessor"
)

// NewFactory returns the factory of the processor "kernelsym". All processors of a process
// share what they know of the kernel.
func NewFactory() processor.Factory {
	return xprocessor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		xprocessor.WithProfiles(createProfiles, metadata.ProfilesStability),
	)
}

// caches are those of the process: a collector that reloads its configuration makes new
// factories, too, and is to forget nothing (contract 6.4).
var caches symcache.Registry[sources.Options]

func createProfiles(
	ctx context.Context, set processor.Settings, config component.Config, next xconsumer.Profiles,
) (xprocessor.Profiles, error) {
	c := config.(*Config)
	opts := c.rewriteOptions()
	if c.HostCheck {
		opts.IsForeign = kernelsymprocessor.ThisHost(c.Procfs, os.Getenv).IsForeign
	}
	key := c.sourceOptions()
	//nolint:contextcheck // a cache serves all pipelines, so it lives longer than the context of any
	p, err := kernelsymprocessor.New(set.TelemetrySettings, opts, func() (*symcache.Cache, func()) {
		return caches.Acquire(key, set.Logger, func() *symcache.Cache {
			return symcache.Start(set.Logger, realtime.NewTracker(keepClock, readClock),
				sources.ListOn(runtime.GOOS, key, set.Logger)...)
		})
	})
	if err != nil {
		return nil, err
	}
	return xprocessorhelper.NewProfiles(ctx, set, config, next, p.ProcessProfiles,
		xprocessorhelper.WithStart(p.Start),
		xprocessorhelper.WithShutdown(p.Shutdown),
		xprocessorhelper.WithCapabilities(consumer.Capabilities{MutatesData: true}),
	)
}

// keepClock is for how long it is known how the wall clock went. A history can be
// longer: of times before, it is taken to have gone as it did first.
const keepClock = time.Hour

// readClock reads the clock of the sources, and how much more the wall clock shows.
func readClock() realtime.Reading {
	boot, offset, err := perfring.Boottime.UnixOffset()
	return realtime.Reading{Boot: boot, Offset: offset, Error: err}
}
