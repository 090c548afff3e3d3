// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/metadata"
	"github.com/kernelsym/kernelsym/internal/packs"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A member is a component of a collector, in some pipelines.
type member struct {
	t         *testing.T
	source    source
	pipelines []*Processor
}

// The clocks in these tests stand still.
const (
	now  = int64(1000 * time.Second)
	unix = int64(1_700_000_000 * time.Second)
	code = 0xffffffffc0000000
)

// still is a source whose table never changes.
type still struct{ table *timeline.Table }

func (still) Name() string { return "still" }

func (s still) Run(ctx context.Context, publish func(symcache.Update)) error {
	publish(symcache.Update{Table: s.table})
	<-ctx.Done()
	return nil
}

// startMember starts a component in a number of pipelines.
func startMember(t *testing.T, telemetry *componenttest.Telemetry, id string, opts rewrite.Options, pipelines int) *member {
	t.Helper()
	m := &member{t: t, source: make(source)}
	clock := func() realtime.Reading { return realtime.Reading{Boot: now, Offset: unix - now} }
	var caches symcache.Registry[string, Sources]
	t.Cleanup(caches.StopUnused)
	var cache *symcache.Cache
	c, err := NewShared(component.MustNewIDWithName("kernelsym", id), telemetry.NewTelemetrySettings(), opts,
		func(component.Host) (Sources, func(), error) {
			known, release := caches.Acquire("", zap.NewNop(), func() Sources {
				store := packs.New(packs.Options{MaxBytes: 1 << 20})
				still := still{timeline.NewTable(core(t, "came_with_it", strings.Repeat("ab", 20)))}
				cache = symcache.Start(zap.NewNop(), realtime.NewTracker(time.Hour, clock), still, m.source, store)
				return Sources{cache, store}
			})
			return known, release, nil
		})
	require.NoError(t, err)
	for range pipelines {
		p := c.NewProcessor()
		require.NoError(t, p.Start(atOnce(), newHost()))
		m.pipelines = append(m.pipelines, p)
	}
	require.Eventually(t, func() bool { // the core of the kernel is known
		return cache.Snapshot().Core() != nil
	}, time.Minute, time.Millisecond)
	return m
}

// know makes a table known: of BPF functions and of times in which some may have been missed.
func (m *member) know(functions int, blind time.Duration, changes symcache.Changes) {
	m.t.Helper()
	h := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: 10})
	for i := range functions {
		h.Load(timeline.NewFunction(timeline.OriginBPF, "f", code+uint64(i)*0x1000, 0x100, now/2))
	}
	h.Load(timeline.NewFunction(timeline.OriginBPF, "gone", code-0x1000, 0x100, now/2))
	h.Unload(h.At(code-0x1000), now/2+1)
	h.AddBlind(timeline.Interval{From: 0, To: blind.Nanoseconds()})
	h.SetCertain(now)
	m.source <- published{table: h.Table(), changes: changes}
	m.source <- published{table: h.Table()} // then the first is known
}

// pass sends a message with a named frame and one without through a pipeline.
func (m *member) pass(pipeline int, at int64) {
	m.t.Helper()
	msg := rewritetest.NewMessage().Profile(nil, "scope").Sample(
		rewritetest.Frame{Address: code + 8, Type: "kernel"},
		rewritetest.Frame{Address: 0xffffffff81000000, Type: "kernel", Lines: []rewritetest.Line{{Name: "came_with_it"}}},
	)
	msg.LastSample().TimestampsUnixNano().Append(uint64(unix + at))
	_, err := m.pipelines[pipeline].ProcessProfiles(m.t.Context(), msg.Profiles)
	require.NoError(m.t, err)
}

func (m *member) shutdown(pipeline int) {
	m.t.Helper()
	require.NoError(m.t, m.pipelines[pipeline].Shutdown(context.Background()))
}

// valuesOf returns the values of all metrics of a component; for a histogram, its count. It fails for a
// metric that names no component.
func valuesOf(t *testing.T, telemetry *componenttest.Telemetry, id string) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, telemetry.Reader.Collect(t.Context(), &all))
	values := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			for set, value := range pointsOf(t, m.Data) {
				processor, ok := set.Value("processor")
				require.True(t, ok, "%s{%s}", m.Name, set.Encoded(attribute.DefaultEncoder()))
				if processor.AsString() == id {
					rest, _ := set.Filter(func(kv attribute.KeyValue) bool { return kv.Key != "processor" })
					name := strings.TrimPrefix(m.Name, "otelcol_processor_kernelsym_")
					values[name+"{"+rest.Encoded(attribute.DefaultEncoder())+"}"] = value
				}
			}
		}
	}
	return values
}

func pointsOf(t *testing.T, data metricdata.Aggregation) map[attribute.Set]float64 {
	t.Helper()
	points := make(map[attribute.Set]float64)
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			points[p.Attributes] = float64(p.Value)
		}
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			points[p.Attributes] = p.Value
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			points[p.Attributes] = float64(p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			points[p.Attributes] = float64(p.Count)
		}
	default:
		t.Fatalf("%T", data)
	}
	return points
}

// The metrics expected of a component in two pipelines, and of one in a single pipeline.
var (
	wantTwice = map[string]float64{
		"frames{origin=bpf,outcome=resolved}":      2,
		"frames{origin=kernel,outcome=unobserved}": 2,
		"frames{origin=kernel,outcome=named}":      4,
		"profiles_clock_off{}":                     2,
		"rewrite_duration{}":                       4,
		"blind_time{source=fake}":                  1.5,
		"history_entries{}":                        1,
		"lost_records{source=fake}":                5,
		"resyncs{source=fake}":                     1,
		"source_up{source=fake}":                   1,
		"symbols{origin=bpf}":                      3,
		"updates{kind=load,source=fake}":           3,
		"updates{kind=unload,source=fake}":         0,
		"update_delay{kind=load,source=fake}":      1,
	}
	wantOnce = map[string]float64{
		"frames{origin=bpf,outcome=resolved}":   1,
		"frames{origin=kernel,outcome=named}":   1,
		"profiles_clock_off{}":                  0,
		"rewrite_duration{}":                    1,
		"blind_time{source=fake}":               0.25,
		"history_entries{}":                     1,
		"lost_records{source=fake}":             70,
		"resyncs{source=fake}":                  10,
		"source_up{source=fake}":                1,
		"symbols{origin=bpf}":                   2,
		"updates{kind=load,source=fake}":        0,
		"updates{kind=unload,source=fake}":      20,
		"update_delay{kind=unload,source=fake}": 1,
	}
)

// TestContract_9_EachComponentHasItsOwnMetrics has two components in one collector that have different
// sources and do different work, one of them in two pipelines. The second pipeline must not count twice: both
// report the same sources, and their work adds up.
func TestContract_9_EachComponentHasItsOwnMetrics(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	opts := rewrite.Options{History: time.Hour, DebugInfo: true}
	twice := startMember(t, telemetry, "twice", opts, 2)
	once := startMember(t, telemetry, "once", opts, 1)

	changes := symcache.Changes{Counts: symcache.Counts{LostRecords: 5, Resyncs: 1}}
	changes.Note(symcache.KindLoad, 3, time.Now())
	twice.know(3, 1500*time.Millisecond, changes)
	changes = symcache.Changes{Counts: symcache.Counts{LostRecords: 70, Resyncs: 10}}
	changes.Note(symcache.KindUnload, 20, time.Now())
	once.know(2, 250*time.Millisecond, changes)

	twice.pass(0, -1)
	twice.pass(1, -1)
	twice.pass(0, int64(time.Hour))
	twice.pass(1, int64(time.Hour))
	once.pass(0, -1)

	check := func(want map[string]float64, id string) map[string]float64 {
		t.Helper()
		values := valuesOf(t, telemetry, id)
		assert.Subset(t, values, want, id)
		return values
	}
	check(wantOnce, "kernelsym/once")
	namesAll(t, check(wantTwice, "kernelsym/twice"))

	twice.shutdown(0)
	check(wantTwice, "kernelsym/twice") // the other pipeline still reports
	twice.shutdown(1)
	assert.NotContains(t, valuesOf(t, telemetry, "kernelsym/twice"), "source_up{source=fake}")
	check(wantOnce, "kernelsym/once")
	once.shutdown(0)
}

// namesAll verifies that the values include every metric of the component.
func namesAll(t *testing.T, values map[string]float64) {
	t.Helper()
	got := make(map[string]bool)
	for name := range values {
		name, _, _ = strings.Cut(name, "{")
		got["ProcessorKernelsym"+strings.ReplaceAll(name, "_", "")] = true
	}
	want := make(map[string]bool)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[metadata.TelemetryBuilder]()) {
		if name, ok := strings.CutPrefix(field.Name, "ProcessorKernelsym"); ok {
			want["ProcessorKernelsym"+strings.ToLower(name)] = true
		}
	}
	assert.Equal(t, want, got)
}

// TestCountingDoesNotAllocate: the attributes of everything that each message counts are made in advance.
func TestCountingDoesNotAllocate(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	m, err := newMetrics(component.MustNewID("kernelsym"), telemetry.NewTelemetrySettings())
	require.NoError(t, err)
	var result rewrite.Result
	for outcome := range result.Counts {
		for origin := range result.Counts[outcome] {
			result.Counts[outcome][origin] = 1
		}
	}
	for gave := range result.Packs {
		result.Packs[gave] = 1
	}
	ctx := t.Context()
	assert.Zero(t, testing.AllocsPerRun(100, func() { m.count(ctx, &result, time.Millisecond) }))
}
