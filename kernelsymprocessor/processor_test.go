// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/metadatatest"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source publishes what it is sent, and fails when it is sent an error without a
// table.
type source chan published

type published struct {
	table   *timeline.Table
	err     error
	changes symcache.Changes
}

func (source) Name() string { return "fake" }

func (s source) Run(ctx context.Context, publish func(symcache.Update)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-s:
			if p.table == nil {
				return p.err
			}
			publish(symcache.Update{Table: p.table, Degraded: p.err, Changes: p.changes})
		}
	}
}

func (s source) acquire(component.Host) (Sources, func(), error) {
	c := symcache.Start(zap.NewNop(), nil, s)
	return Sources{Symbols: c}, c.Stop, nil
}

const text = 0xffffffff81000000

// kernel returns a table with one function of that name.
func kernel(t testing.TB, name string) *timeline.Table {
	t.Helper()
	return timeline.NewTable(core(t, name, "ab"))
}

// core returns a core kernel of that build with one function of that name.
func core(t testing.TB, name, buildID string) *timeline.Image {
	t.Helper()
	return timelinetest.NewImage(t, timelinetest.Text{BuildID: buildID, Base: text, Start: text, End: text + 0x100},
		timelinetest.Symbol{Name: name})
}

func message() *rewritetest.Message {
	return rewritetest.NewMessage().Profile(nil, "scope").Sample(
		rewritetest.Frame{Address: text + 0x10, Type: "kernel"},
		rewritetest.Frame{Address: text + 0x1000, Type: "kernel"},
		rewritetest.Frame{Address: 0x10, Type: "native"},
	)
}

// process returns the name of the first frame of a message after processing.
func process(t testing.TB, p *Processor) string {
	t.Helper()
	pd, err := p.ProcessProfiles(context.Background(), message().Profiles)
	require.NoError(t, err)
	require.NoError(t, rewritetest.CheckSent(pd))
	require.NoError(t, rewritetest.CheckRewritten(message().Profiles, pd))
	if lines := rewritetest.Samples(pd)[0].Stack[0].Lines; len(lines) > 0 {
		return lines[0].Name
	}
	return ""
}

// host is a collector that notes the status reported to it.
type host struct {
	component.Host
	mu     sync.Mutex
	events []*componentstatus.Event
}

func newHost() *host { return &host{Host: componenttest.NewNopHost()} }

func (h *host) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// atOnce returns a context that is done, with which Start waits for nothing.
func atOnce() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func newProcessor(t testing.TB, acquire OpenSources) *Processor {
	t.Helper()
	return newProcessorIn(t, componenttest.NewNopTelemetrySettings(), acquire)
}

func newProcessorIn(t testing.TB, set component.TelemetrySettings, acquire OpenSources) *Processor {
	t.Helper()
	c, err := NewShared(component.MustNewIDWithName("kernelsym", "test"), set, rewrite.Options{}, acquire)
	require.NoError(t, err)
	return c.NewProcessor()
}

// with returns the attributes of a metric of such a processor.
func with(attributes ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(attributes, attribute.String("processor", "kernelsym/test"))...)
}

func TestProcessorUsesTheLatestSymbols(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(source)
		p := newProcessor(t, s.acquire)
		require.NoError(t, p.Start(t.Context(), newHost()))
		assert.Empty(t, process(t, p), "nothing is known yet, and it does not wait")
		s <- published{table: kernel(t, "first")}
		synctest.Wait()
		assert.Equal(t, "first", process(t, p))
		s <- published{table: kernel(t, "second")}
		synctest.Wait()
		assert.Equal(t, "second", process(t, p))
		s <- published{err: errors.New("broken")}
		synctest.Wait()
		assert.Equal(t, "second", process(t, p), "6.2: the last good table is kept")
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// TestContract_6_2_StartWaitsForTheFirstTables, which come in time, come late, or are refused.
func TestContract_6_2_StartWaitsForTheFirstTables(t *testing.T) {
	for _, tt := range []struct {
		first  published
		after  time.Duration
		waits  time.Duration
		called string // the name that the first message has
	}{
		{published{table: kernel(t, "f")}, time.Second, time.Second, "f"},
		{published{table: kernel(t, "f")}, time.Minute, 2 * time.Second, ""},
		{published{err: errors.New("refused")}, time.Second, time.Second, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := make(source)
			p := newProcessor(t, s.acquire)
			time.AfterFunc(tt.after, func() { s <- tt.first })
			began := time.Now()
			require.NoError(t, p.Start(t.Context(), newHost()))
			assert.Equal(t, tt.waits, time.Since(began))
			assert.Equal(t, tt.called, process(t, p))
			time.Sleep(time.Hour)
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}

func TestStartAndShutdownInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcessor(t, make(source).acquire)
		start := func() { require.NoError(t, p.Start(t.Context(), newHost())) }
		shutdown := func() { require.NoError(t, p.Shutdown(t.Context())) }
		for _, step := range []func(){shutdown, start, start, shutdown, shutdown, start, shutdown} {
			step()
			assert.Empty(t, process(t, p))
		}
	})
}

func TestContract_8_StatusSaysWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(source)
		h := newHost()
		p := newProcessor(t, s.acquire)
		require.NoError(t, p.Start(t.Context(), h))
		synctest.Wait()
		assert.Empty(t, h.events, "not known yet")

		s <- published{err: errors.New("set kernel.kptr_restrict")}
		s <- published{table: kernel(t, "f"), err: errors.New("no file IDs")}
		s <- published{table: kernel(t, "f")}
		synctest.Wait()
		require.NoError(t, p.Shutdown(t.Context()))

		require.Len(t, h.events, 3)
		assert.Equal(t, componentstatus.StatusRecoverableError, h.events[0].Status())
		require.EqualError(t, h.events[0].Err(), "fake is down: set kernel.kptr_restrict")
		assert.Equal(t, componentstatus.StatusRecoverableError, h.events[1].Status())
		require.EqualError(t, h.events[1].Err(), "fake is degraded: no file IDs")
		assert.Equal(t, componentstatus.StatusOK, h.events[2].Status())
	})
}

// TestContract_8_StatusDoesNotWaitForOthers has a source that fails while another has
// not begun yet.
func TestContract_8_StatusDoesNotWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, slow := make(source), make(source)
		h := newHost()
		p := newProcessor(t, func(component.Host) (Sources, func(), error) {
			c := symcache.Start(zap.NewNop(), nil, broken, slow)
			return Sources{Symbols: c}, c.Stop, nil
		})
		require.NoError(t, p.Start(t.Context(), h))
		broken <- published{err: errors.New("grant CAP_SYSLOG")}
		synctest.Wait()
		require.Len(t, h.events, 1)
		require.EqualError(t, h.events[0].Err(), "fake is down: grant CAP_SYSLOG")

		broken <- published{table: kernel(t, "f")}
		synctest.Wait()
		require.Len(t, h.events, 1, "not known of the other yet")
		slow <- published{table: kernel(t, "f")}
		synctest.Wait()
		require.Len(t, h.events, 2)
		assert.Equal(t, componentstatus.StatusOK, h.events[1].Status())
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// TestContract_9_BlindTime has a source that lost records twice.
func TestContract_9_BlindTime(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	s := make(source)
	p := newProcessorIn(t, telemetry.NewTelemetrySettings(), s.acquire)
	require.NoError(t, p.Start(atOnce(), newHost()))
	_, err := telemetry.GetMetric("otelcol_processor_kernelsym_blind_time")
	require.Error(t, err, "nothing was published")

	h := timeline.NewBuilder(timeline.Limits{})
	second := time.Second.Nanoseconds()
	h.AddBlind(timeline.Interval{From: math.MinInt64, To: 5 * second}) // before it began
	h.AddBlind(timeline.Interval{From: 10 * second, To: 11 * second})
	h.AddBlind(timeline.Interval{From: 20 * second, To: 20*second + second/2})
	s <- published{table: h.Table()}
	s <- published{table: h.Table()} // the first is in the snapshot
	metadatatest.AssertEqualProcessorKernelsymBlindTime(t, telemetry,
		[]metricdata.DataPoint[float64]{{Value: 1.5, Attributes: with(attribute.String("source", "fake"))}},
		metricdatatest.IgnoreTimestamp())
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestTelemetry(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	s := make(source)
	p := newProcessorIn(t, telemetry.NewTelemetrySettings(), s.acquire)
	require.NoError(t, p.Start(atOnce(), newHost()))
	sourceUp := func(want int64) {
		t.Helper()
		metadatatest.AssertEqualProcessorKernelsymSourceUp(t, telemetry,
			[]metricdata.DataPoint[int64]{{Value: want, Attributes: with(attribute.String("source", "fake"))}},
			metricdatatest.IgnoreTimestamp())
	}
	sourceUp(0)
	s <- published{table: kernel(t, "f")}
	require.Eventually(t, func() bool { return process(t, p) == "f" }, time.Minute, time.Millisecond)
	sourceUp(1)

	before := frames(t, telemetry)
	process(t, p)
	after := frames(t, telemetry)
	resolved := with(attribute.String("outcome", "resolved"), attribute.String("origin", "kernel"))
	unresolved := with(attribute.String("outcome", "unresolved"), attribute.String("origin", "kernel"))
	assert.Equal(t, before[resolved]+1, after[resolved])
	assert.Equal(t, before[unresolved]+1, after[unresolved])

	ofKernel := func(n int64) (points []metricdata.DataPoint[int64]) {
		for origin, n := range [timeline.NumOrigins]int64{timeline.OriginKernel: n} {
			points = append(points, metricdata.DataPoint[int64]{
				Value: n, Attributes: with(attribute.String("origin", timeline.Origin(origin).String())),
			})
		}
		return points
	}
	metadatatest.AssertEqualProcessorKernelsymSymbols(t, telemetry, ofKernel(1), metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorKernelsymMemory(t, telemetry,
		ofKernel(kernel(t, "f").Count()[timeline.OriginKernel].Memory), metricdatatest.IgnoreTimestamp())
	duration, err := telemetry.GetMetric("otelcol_processor_kernelsym_rewrite_duration")
	require.NoError(t, err)
	assert.NotEmpty(t, duration.Data.(metricdata.Histogram[float64]).DataPoints)

	require.NoError(t, p.Shutdown(t.Context()))
	_, err = telemetry.GetMetric("otelcol_processor_kernelsym_symbols")
	require.Error(t, err, "not observed any more")
}

// frames returns the counted frames by their attributes.
func frames(t *testing.T, telemetry *componenttest.Telemetry) map[attribute.Set]int64 {
	t.Helper()
	m, err := telemetry.GetMetric("otelcol_processor_kernelsym_frames")
	require.NoError(t, err)
	n := make(map[attribute.Set]int64)
	for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
		n[point.Attributes] = point.Value
	}
	return n
}

func TestContract_4_6_NothingToDoDoesNotAllocate(t *testing.T) {
	p := newProcessor(t, make(source).acquire)
	require.NoError(t, p.Start(atOnce(), newHost()))
	defer func() { require.NoError(t, p.Shutdown(context.Background())) }()
	pd := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(rewritetest.Frame{Address: 1, Type: "native"}).Profiles
	ctx := t.Context()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := p.ProcessProfiles(ctx, pd); err != nil {
			t.Fail()
		}
	}))
}

// TestManyPipelines has profiles rewritten by several goroutines while symbols
// change and the processor starts and stops.
func TestManyPipelines(t *testing.T) {
	s := make(source)
	p := newProcessor(t, s.acquire)
	require.NoError(t, p.Start(atOnce(), newHost()))
	var busy sync.WaitGroup
	for range 4 {
		busy.Go(func() {
			for range 200 {
				switch name := process(t, p); name {
				case "", "first", "second":
				default:
					t.Errorf("name %q", name)
				}
			}
		})
	}
	tables := []*timeline.Table{kernel(t, "first"), kernel(t, "second")}
	for i := range 100 {
		s <- published{table: tables[i%2]}
		if i%10 == 9 {
			require.NoError(t, p.Shutdown(t.Context()))
			require.NoError(t, p.Start(atOnce(), newHost()))
		}
	}
	busy.Wait()
	require.NoError(t, p.Shutdown(t.Context()))
}
