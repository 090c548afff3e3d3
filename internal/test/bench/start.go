// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/kernelsymprocessor"
)

// benchStart measures how long a processor's Start takes, which waits for the first tables,
// compared with only reading them.
func benchStart(rounds int) error {
	ctx := context.Background()
	list := func() []symcache.Source { return sources.List(sources.Everything("/proc", "/sys")) }
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	var p *kernelsymprocessor.Processor
	stop := func() {
		if p != nil {
			note(p.Shutdown(ctx))
		}
	}
	t := medians(rounds, wall,
		task{
			prepare: func() {
				stop()
				c, err := kernelsymprocessor.NewShared(component.MustNewID("kernelsym"), componenttest.NewNopTelemetrySettings(),
					rewrite.Options{}, func(component.Host) (kernelsymprocessor.Sources, func(), error) {
						cache := symcache.Start(zap.NewNop(), nil, list()...)
						return kernelsymprocessor.Sources{Symbols: cache}, cache.Stop, nil
					})
				note(err)
				p = c.NewProcessor()
			},
			run: func() { note(p.Start(ctx, componenttest.NewNopHost())) },
		},
		task{run: func() {
			_, err := symcache.Load(ctx, list()...)
			note(err)
		}})
	stop()
	report("start_ms", float64(t[0])/timesARound/float64(time.Millisecond))
	report("start_vs_first_read", ratio(t[0], t[1]))
	return errors.Join(errs...)
}
