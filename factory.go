package kernelsym

import (
	"context"
	"os"
	"runtime"
	"sync"
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
	f := &factory{}
	return xprocessor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		xprocessor.WithProfiles(f.createProfiles, metadata.ProfilesStability),
	)
}

// caches are those of the process: a collector that reloads its configuration makes new
// factories, too, and is to forget nothing (contract 6.4).
var caches symcache.Registry[sources.Options]

// A factory makes one component of the processors with one id.
type factory struct {
	mu         sync.Mutex
	components map[key]*kernelsymprocessor.Component
}

// key is what the processors of one component have in common. A collector has one
// configuration for each id.
type key struct {
	id     component.ID
	config *Config
}

func (f *factory) createProfiles(
	ctx context.Context, set processor.Settings, config component.Config, next xconsumer.Profiles,
) (xprocessor.Profiles, error) {
	//nolint:contextcheck // a component is in all its pipelines, so it lives longer than the context of any
	c, err := f.component(set, config.(*Config))
	if err != nil {
		return nil, err
	}
	p := c.NewProcessor()
	return xprocessorhelper.NewProfiles(ctx, set, config, next, p.ProcessProfiles,
		xprocessorhelper.WithStart(p.Start),
		xprocessorhelper.WithShutdown(p.Shutdown),
		xprocessorhelper.WithCapabilities(consumer.Capabilities{MutatesData: true}),
	)
}

// component returns the component with that id, which it makes for the first pipeline.
func (f *factory) component(set processor.Settings, config *Config) (*kernelsymprocessor.Component, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := key{set.ID, config}
	if c := f.components[k]; c != nil {
		return c, nil
	}
	opts := config.rewriteOptions()
	if config.HostCheck {
		opts.IsForeign = kernelsymprocessor.ThisHost(config.Procfs, os.Getenv).IsForeign
	}
	from := config.sourceOptions()
	c, err := kernelsymprocessor.NewComponent(set.ID, set.TelemetrySettings, opts, func() (*symcache.Cache, func()) {
		return caches.Acquire(from, set.Logger, func() *symcache.Cache {
			return symcache.Start(set.Logger, realtime.NewTracker(keepClock, readClock),
				sources.ListOn(runtime.GOOS, from, set.Logger)...)
		})
	})
	if err != nil {
		return nil, err
	}
	if f.components == nil {
		f.components = make(map[key]*kernelsymprocessor.Component)
	}
	f.components[k] = c
	return c, nil
}

// keepClock is for how long it is known how the wall clock went. A history can be
// longer: of times before, it is taken to have gone as it did first.
const keepClock = time.Hour

// readClock reads the clock of the sources, and how much more the wall clock shows.
func readClock() realtime.Reading {
	boot, offset, err := perfring.Boottime.UnixOffset()
	return realtime.Reading{Boot: boot, Offset: offset, Error: err}
}
