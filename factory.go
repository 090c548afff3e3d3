// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper/xprocessorhelper"
	"go.opentelemetry.io/collector/processor/xprocessor"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/metadata"
	"github.com/kernelsym/kernelsym/internal/packs"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/kernelsymprocessor"
)

// NewFactory returns the factory of the processor "kernelsym". All processors of a process that
// read the same sources share a cache.
func NewFactory() processor.Factory {
	f := &factory{}
	return xprocessor.NewFactory(
		metadata.Type,
		defaultConfig,
		xprocessor.WithProfiles(f.createProfiles, metadata.ProfilesStability),
	)
}

// caches belongs to the process, not to a factory: a collector that reloads its configuration
// makes new factories, too, and must not lose its caches (contract 6.4).
var caches symcache.Registry[cacheKey, kernelsymprocessor.Sources]

// cacheKey identifies the sources and packs of a cache. Processors with the same key share a cache.
type cacheKey struct {
	sources sources.Options // zero on a gateway
	packs   packs.Options   // zero without packs
	http    string          // settings of the HTTP client, without secrets
}

// A factory makes one shared part for all processors with the same id.
type factory struct {
	mu     sync.Mutex
	shared map[sharedKey]*kernelsymprocessor.Shared
}

// sharedKey identifies a shared part. A collector has one configuration for each id.
type sharedKey struct {
	id     component.ID
	config *Config
}

func (f *factory) createProfiles(
	ctx context.Context, set processor.Settings, config component.Config, next xconsumer.Profiles,
) (xprocessor.Profiles, error) {
	//nolint:contextcheck // the shared part belongs to several pipelines, so it outlives the context of each
	shared, err := f.sharedBy(set, config.(*Config))
	if err != nil {
		return nil, err
	}
	p := shared.NewProcessor()
	return xprocessorhelper.NewProfiles(ctx, set, config, next, p.ProcessProfiles,
		xprocessorhelper.WithStart(p.Start),
		xprocessorhelper.WithShutdown(p.Shutdown),
		xprocessorhelper.WithCapabilities(consumer.Capabilities{MutatesData: true}),
	)
}

// sharedBy returns the shared part of the processors with an id. It makes one for the first pipeline.
func (f *factory) sharedBy(set processor.Settings, config *Config) (*kernelsymprocessor.Shared, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := sharedKey{set.ID, config}
	if shared := f.shared[key]; shared != nil {
		return shared, nil
	}
	opts := config.rewriteOptions()
	if config.HostCheck && config.Local {
		host := kernelsymprocessor.ThisHost(config.Procfs, os.Getenv)
		if !host.IsKnown() {
			set.Logger.Warn("host_check has no effect: the identity of this host is unknown: set the variable K8S_NODE_NAME")
		}
		opts.IsForeign = host.IsForeign
	}
	shared, err := kernelsymprocessor.NewShared(set.ID, set.TelemetrySettings, opts, config.openWith(set))
	if err != nil {
		return nil, err
	}
	if f.shared == nil {
		f.shared = make(map[sharedKey]*kernelsymprocessor.Shared)
	}
	f.shared[key] = shared
	return shared, nil
}

// openWith returns the function by which processors open a cache and packs.
func (c *Config) openWith(set processor.Settings) kernelsymprocessor.OpenSources {
	key := c.cacheKey()
	return func(host component.Host) (kernelsymprocessor.Sources, func(), error) {
		var client *http.Client
		if c.DebugInfo.URL != "" {
			ctx := context.Background() // the client outlives the start of the processor
			var err error
			if client, err = c.DebugInfo.HTTP.ToClient(ctx, host.GetExtensions(), set.TelemetrySettings); err != nil {
				return kernelsymprocessor.Sources{}, nil, fmt.Errorf("debug_info::http: %w", err)
			}
		}
		opened, release := caches.Acquire(key, set.Logger, func() kernelsymprocessor.Sources { return c.start(key, set.Logger) })
		if client != nil { // the last processor's client wins: the clients can differ only in secrets
			opened.Packs.SetClient(client)
		}
		return opened, release, nil
	}
}

// cacheKey returns the key of the cache that the configuration describes.
func (c *Config) cacheKey() (key cacheKey) {
	if c.Local {
		key.sources = c.sourceOptions()
	}
	if c.DebugInfo.enabled() {
		key.packs = c.packOptions()
	}
	if c.DebugInfo.URL != "" {
		settings := confmap.New()
		_ = settings.Marshal(c.DebugInfo.HTTP) // it was read from a configuration, so it can be written as one
		key.http = fmt.Sprint(settings.ToStringMap())
	}
	return key
}

// start starts the sources and the packs of a cache.
func (c *Config) start(key cacheKey, logger *zap.Logger) (started kernelsymprocessor.Sources) {
	var list []symcache.Source
	if c.DebugInfo.enabled() {
		started.Packs = packs.New(key.packs)
	}
	if c.Local {
		list = sources.ListOn(runtime.GOOS, key.sources, started.Packs, logger)
	}
	if started.Packs != nil {
		list = append(list, started.Packs)
	}
	started.Symbols = symcache.Start(logger, sources.NewClock(), list...)
	return started
}
