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
var caches symcache.Registry[origin, kernelsymprocessor.Knowledge]

// origin identifies the sources and packs of a cache. Processors with the same origin share a
// cache.
type origin struct {
	sources sources.Options // zero on a gateway
	packs   packs.Options   // zero without packs
	http    string          // settings of the HTTP client, without secrets
}

// A factory makes one component for all processors with the same id.
type factory struct {
	mu         sync.Mutex
	components map[key]*kernelsymprocessor.Component
}

// key identifies a component. A collector has one configuration for each id.
type key struct {
	id     component.ID
	config *Config
}

func (f *factory) createProfiles(
	ctx context.Context, set processor.Settings, config component.Config, next xconsumer.Profiles,
) (xprocessor.Profiles, error) {
	//nolint:contextcheck // a component is in all its pipelines, so it outlives the context of each
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

// component returns the component with that id. It makes the component for the first pipeline.
func (f *factory) component(set processor.Settings, config *Config) (*kernelsymprocessor.Component, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := key{set.ID, config}
	if c := f.components[k]; c != nil {
		return c, nil
	}
	opts := config.rewriteOptions()
	if config.HostCheck && config.Local {
		host := kernelsymprocessor.ThisHost(config.Procfs, os.Getenv)
		if !host.IsKnown() {
			set.Logger.Warn("host_check has no effect: the identity of this host is unknown: set the variable K8S_NODE_NAME")
		}
		opts.IsForeign = host.IsForeign
	}
	c, err := kernelsymprocessor.NewComponent(set.ID, set.TelemetrySettings, opts, config.acquireWith(set))
	if err != nil {
		return nil, err
	}
	if f.components == nil {
		f.components = make(map[key]*kernelsymprocessor.Component)
	}
	f.components[k] = c
	return c, nil
}

// acquireWith returns the function by which the processors of a component acquire a cache and
// packs.
func (c *Config) acquireWith(set processor.Settings) kernelsymprocessor.Acquire {
	from := c.origin()
	return func(host component.Host) (kernelsymprocessor.Knowledge, func(), error) {
		var client *http.Client
		if c.DebugInfo.URL != "" {
			ctx := context.Background() // the client outlives the start of the processor
			var err error
			if client, err = c.DebugInfo.HTTP.ToClient(ctx, host.GetExtensions(), set.TelemetrySettings); err != nil {
				return kernelsymprocessor.Knowledge{}, nil, fmt.Errorf("debug_info::http: %w", err)
			}
		}
		known, release := caches.Acquire(from, set.Logger, func() kernelsymprocessor.Knowledge { return c.start(from, set.Logger) })
		if client != nil { // the last processor's client wins: the clients can differ only in secrets
			known.Packs.SetClient(client)
		}
		return known, release, nil
	}
}

// origin returns the origin that the configuration describes.
func (c *Config) origin() (from origin) {
	if c.Local {
		from.sources = c.sourceOptions()
	}
	if c.DebugInfo.enabled() {
		from.packs = c.packOptions()
	}
	if c.DebugInfo.URL != "" {
		settings := confmap.New()
		_ = settings.Marshal(c.DebugInfo.HTTP) // it was read from a configuration, so it can be written as one
		from.http = fmt.Sprint(settings.ToStringMap())
	}
	return from
}

// start starts the sources and the packs of an origin.
func (c *Config) start(from origin, logger *zap.Logger) (known kernelsymprocessor.Knowledge) {
	var list []symcache.Source
	if c.Local {
		list = sources.ListOn(runtime.GOOS, from.sources, logger)
	}
	if c.DebugInfo.enabled() {
		known.Packs = packs.New(from.packs)
		list = append(list, known.Packs)
	}
	known.Cache = symcache.Start(logger, sources.NewClock(), list...)
	return known
}
