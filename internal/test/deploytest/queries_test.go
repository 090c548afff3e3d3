// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A series is a metric in Prometheus, with a sample every minute.
type series struct {
	name        string // with labels
	first, last int    // minutes
	value, more float64
}

// now is the minute for which queries are answered.
const now = 120

// always returns a gauge that has a value all the time.
func always(name string, value float64) series { return series{name, 0, now, value, 0} }

// counter returns a counter that has grown each minute.
func counter(name string, more float64) series { return series{name, 0, now, 0, more} }

// The processors of each collector.
const (
	main  = "kernelsym"
	other = "kernelsym/other"
)

// exposed returns the name of a metric of a processor, with further labels in pairs. The scrape job
// has set the label node.
func exposed(instance, processor, metric string, more ...string) string {
	name := fmt.Sprintf(`otelcol_processor_kernelsym_%s{instance=%q, node=%q, processor=%q`, metric, instance, "node-"+instance, processor)
	for i := 0; i < len(more); i += 2 {
		name += fmt.Sprintf(", %s=%q", more[i], more[i+1])
	}
	return name + "}"
}

// source returns the name of the metric that says whether a source works.
func source(instance, processor, name string) string {
	return exposed(instance, processor, "source_up", "source", name)
}

func symbols(instance, processor string) string {
	return exposed(instance, processor, "symbols", "origin", "kernel")
}

func frames(instance, processor, outcome string) string {
	return exposed(instance, processor, "frames", "origin", "kernel", "outcome", outcome)
}

func accepted(instance string) string {
	return fmt.Sprintf(`otelcol_receiver_accepted_profile_samples{instance=%q, node=%q, receiver="otlp"}`, instance, "node-"+instance)
}

// sent returns the name of the metric that counts what an exporter has sent.
func sent(instance string) string {
	return fmt.Sprintf(`otelcol_exporter_sent_profile_samples{instance=%q, node=%q, exporter="otlp_grpc", server_address="backend", server_port="4317"}`,
		instance, "node-"+instance)
}

func failedBy(instance, exporter string) string {
	return fmt.Sprintf(`otelcol_exporter_send_failed_profile_samples{instance=%q, node=%q, exporter=%q}`, instance, "node-"+instance, exporter)
}

func queueOf(instance, exporter string) string {
	return fmt.Sprintf(`otelcol_exporter_queue_size{instance=%q, node=%q, exporter=%q, data_type="profiles"}`, instance, "node-"+instance, exporter)
}

// refused returns the name of the metric that counts the requests that the extension admission has refused.
func refused(instance, reason string) string {
	return fmt.Sprintf(`otelcol_extension_admission_refused_requests{instance=%q, node=%q, reason=%q}`, instance, "node-"+instance, reason)
}

// up returns the name of the metric that Prometheus has of each target, whether it answers or not.
func up(instance string) string {
	return fmt.Sprintf(`up{instance=%q, node=%q}`, instance, "node-"+instance)
}

// node returns the series of a node if all is well.
func node(instance string, more ...series) []series {
	all := []series{
		always(up(instance), 1), counter(accepted(instance), 600), counter(sent(instance), 600), always(queueOf(instance, "otlp_grpc"), 0),
	}
	for _, p := range []string{main, other} {
		all = append(all, always(source(instance, p, "kallsyms"), 1), always(source(instance, p, "modules"), 1),
			always(source(instance, p, "bpf"), 1), always(symbols(instance, p), 100000), counter(frames(instance, p, "resolved"), 6000))
	}
	return append(all, more...)
}

// with replaces the series that have the same names.
func with(all []series, others ...series) []series {
	for _, other := range others {
		i := slices.IndexFunc(all, func(s series) bool { return s.name == other.name })
		all[i] = other
	}
	return all
}

// between returns the series of a node that existed from one minute to another.
func between(first, last int, instance string) []series {
	all := node(instance)
	for i := range all {
		all[i].first, all[i].last = first, last
	}
	return all
}

// silent returns the series of a node that has not answered since a minute.
func silent(instance string, since int) []series {
	return append(between(0, since-1, instance), series{up(instance), since, now, 0, 0})
}

// memory has series in place of a database.
type memory []series

func (m memory) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{at: -1}
		for _, s := range m {
			lset, err := parser.ParseMetric(s.name)
			if err != nil {
				return storage.ErrSeriesSet(err)
			}
			if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(lset.Get(m.Name)) }) {
				continue
			}
			var samples []chunks.Sample
			for minute := s.first; minute <= s.last; minute++ {
				samples = append(samples, sample{int64(minute) * time.Minute.Milliseconds(), s.value + float64(minute)*s.more})
			}
			set.all = append(set.all, storage.NewListSeries(lset, samples))
		}
		return set
	}}, nil
}

type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.all) }
func (s *seriesSet) At() storage.Series              { return s.all[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                    { return s.t }
func (s sample) F() float64                  { return s.f }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
}

// answer answers a query as Prometheus would.
func answer(t *testing.T, query string, from memory) promql.Vector {
	t.Helper()
	q, err := newEngine().NewInstantQuery(context.Background(), from, nil, query, time.Unix(now*60, 0))
	require.NoError(t, err, query)
	defer q.Close()
	vector, err := q.Exec(t.Context()).Vector()
	require.NoError(t, err, query)
	return vector
}

// without removes series by name.
func without(all []series, names ...string) []series {
	return slices.DeleteFunc(all, func(s series) bool { return slices.Contains(names, s.name) })
}

// TestDashboardNumbers verifies the main numbers of the dashboard, even if there is nothing to
// count.
func TestDashboardNumbers(t *testing.T) {
	dashboard := dashboardQueries(t)
	for name, tt := range map[string]struct {
		exposed memory
		want    map[string]float64
	}{
		"all is well": {slices.Concat(node("a"), node("b")), map[string]float64{
			"Kernel frames with a name": 1, "Sources that do not work as they should": 0, "Nodes reporting": 2,
		}},
		"most arrived with a name": {
			node("a", counter(frames("a", main, "named"), 60000), counter(frames("a", other, "unresolved"), 12000)),
			map[string]float64{"Kernel frames with a name": 0.5, "Sources that do not work as they should": 0, "Nodes reporting": 1},
		},
		"nothing was ever named": {
			without(node("a", counter(frames("a", main, "unresolved"), 60)), frames("a", main, "resolved"), frames("a", other, "resolved")),
			map[string]float64{"Kernel frames with a name": 0, "Sources that do not work as they should": 0, "Nodes reporting": 1},
		},
		"two sources are down": {
			with(node("a"), always(source("a", main, "bpf"), 0), always(source("a", other, "kallsyms"), 0)),
			map[string]float64{"Kernel frames with a name": 1, "Sources that do not work as they should": 2, "Nodes reporting": 1},
		},
		"nothing is scraped": {nil, map[string]float64{
			"Kernel frames with a name": math.NaN(), "Sources that do not work as they should": math.NaN(), "Nodes reporting": math.NaN(),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for panel, want := range tt.want {
				vector := answer(t, dashboard[panel][0], tt.exposed)
				if math.IsNaN(want) {
					assert.Empty(t, vector, panel)
					continue
				}
				require.Len(t, vector, 1, panel)
				assert.InDelta(t, want, vector[0].F, 0, panel)
			}
		})
	}
}
