// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// A dashboard has the fields of Grafana's dashboards that the tests use.
type dashboard struct {
	Panels []struct {
		Title       string                   `json:"title"`
		Description string                   `json:"description"`
		GridPos     struct{ X, Y, W, H int } `json:"gridPos"`
		Targets     []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name string `json:"name"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(repository + "/deploy/grafana/kernelsym.json")
	require.NoError(t, err)
	require.NotContains(t, string(text), "allValue", "All must mean the instances with kernelsym, not every instance")
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// dashboardQueries returns the queries of the dashboard by panel, with values for
// Grafana's variables.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	d := readDashboard(t)
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	queries := make(map[string][]string)
	for _, p := range d.Panels {
		require.NotContains(t, queries, p.Title)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, target := range p.Targets {
			for _, used := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				assert.Contains(t, variables, used[1], p.Title)
			}
			queries[p.Title] = append(queries[p.Title],
				strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$processor", ".*").Replace(target.Expr))
		}
		require.NotEmpty(t, queries[p.Title])
	}
	return queries
}

// TestDashboardKnowsProcessorsAndOutcomes verifies that each panel shows the selected processors,
// and that the panel of outcomes explains each outcome.
func TestDashboardKnowsProcessorsAndOutcomes(t *testing.T) {
	_, values := exposedNames(t)
	explained := false
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			selectors := strings.Count(target.Expr, "otelcol_processor_")
			assert.Equal(t, selectors, strings.Count(target.Expr, `processor=~"$processor"`), p.Title)
		}
		if p.Title == "Frames by outcome" {
			explained = true
			for _, outcome := range values["outcome"] {
				assert.Contains(t, p.Description, outcome+": ")
			}
		}
	}
	assert.True(t, explained)
}

// alertQueries returns the queries of the alert rules by name.
func alertQueries(t *testing.T) map[string][]string {
	t.Helper()
	queries := make(map[string][]string)
	for name, rule := range alertRules(t) {
		queries[name] = []string{rule.Expr}
		for _, needed := range []string{"summary", "description"} {
			assert.NotEmpty(t, rule.Annotations[needed], "%s: %s", name, needed)
		}
		assert.NotEmpty(t, rule.Labels["severity"], name)
	}
	return queries
}

// metricsOf returns the names of the metrics that a query reads, and the label values that it asks
// for.
func metricsOf(t *testing.T, query string) (names []string, labels map[string][]string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	require.NoError(t, err, query)
	labels = make(map[string][]string)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
			for _, m := range selector.LabelMatchers {
				labels[m.Name] = append(labels[m.Name], strings.Split(m.Value, "|")...)
			}
		}
		return nil
	})
	return names, labels
}

// exposedNames returns the names under which Prometheus has the metrics of the processor and of the extension, and the values of
// their attributes.
func exposedNames(t *testing.T) (names []string, values map[string][]string) {
	t.Helper()
	values = map[string][]string{"source": {"kallsyms", "modules", "bpf", "packs"}, "data_type": {"profiles"}} // exporterhelper has the latter
	for _, file := range []string{"/metadata.yaml", "/admissionextension/metadata.yaml"} {
		text, err := os.ReadFile(repository + file)
		require.NoError(t, err)
		var metadata struct {
			Attributes map[string]struct {
				Enum []string `json:"enum"`
			} `json:"attributes"`
			Telemetry struct {
				Metrics map[string]struct {
					Histogram *struct{} `json:"histogram"`
				} `json:"metrics"`
			} `json:"telemetry"`
		}
		require.NoError(t, yaml.Unmarshal(text, &metadata))
		for name, metric := range metadata.Telemetry.Metrics {
			if metric.Histogram != nil {
				name += "_bucket"
			}
			names = append(names, "otelcol_"+name)
		}
		for name, attribute := range metadata.Attributes {
			values[name] = append(values[name], attribute.Enum...)
		}
	}
	return names, values
}

// ours matches the names of these metrics. TestContainer checks the collector's own metrics.
var ours = regexp.MustCompile(`^otelcol_(processor_kernelsym|extension_admission)_`)

// TestMonitoring verifies that the dashboard and the alerts parse, that they read only existing
// metrics and labels, and that a panel or an alert reads each metric.
func TestMonitoring(t *testing.T) {
	exposed, values := exposedNames(t)
	dashboard := dashboardQueries(t)
	for _, all := range []map[string][]string{dashboard, alertQueries(t)} {
		for where, queries := range all {
			for _, query := range queries {
				names, labels := metricsOf(t, query)
				require.NotEmpty(t, names, where)
				for _, name := range names {
					if ours.MatchString(name) {
						assert.Contains(t, exposed, name, where)
					}
				}
				for label, wanted := range labels {
					if label != "instance" && label != "node" && label != "processor" && label != "receiver" && label != "exporter" && label != model.MetricNameLabel {
						assert.Subset(t, values[label], wanted, "%s: %s", where, label)
					}
				}
			}
		}
	}
	shown := usedMetrics(t)
	for _, name := range exposed {
		assert.Contains(t, shown, name, "no panel and no alert")
	}
}

// usedMetrics returns the metrics that the dashboard and the alerts read.
func usedMetrics(t *testing.T) (used []string) {
	t.Helper()
	for _, all := range []map[string][]string{dashboardQueries(t), alertQueries(t)} {
		for _, queries := range all {
			for _, query := range queries {
				names, _ := metricsOf(t, query)
				used = append(used, names...)
			}
		}
	}
	slices.Sort(used)
	return slices.Compact(used)
}
