// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// countOf runs the command from deploy/README.md that counts frames. kubectl gets the metrics of a pod.
func countOf(t *testing.T, metrics string) string {
	t.Helper()
	_, out := runShell(t, block(t, "sh", "awk"), metrics)
	return out
}

// TestCountOfTheReadme verifies that the command prints a count in every case. TestContainer runs
// it on the metrics of an agent.
func TestCountOfTheReadme(t *testing.T) {
	const frames = `otelcol_processor_kernelsym_frames{origin="kernel",outcome="`
	for name, tt := range map[string]struct{ metrics, want string }{
		"no collector": {"", "0 of 0"},
		"no profiles":  {"# HELP otelcol_processor_kernelsym_frames Frames\notelcol_processor_kernelsym_source_up{source=\"bpf\"} 1\n", "0 of 0"},
		"no names":     {frames + "unresolved\"} 7\n" + frames + "foreign\"} 1\n", "0 of 8"},
		"names that arrived": {
			frames + "named\"} 5\n" + frames + "resolved\"} 1.5e+06\n" + frames + "unresolved\"} 2\n",
			"1500005 of 1500007",
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want+" kernel frames have a name\n", countOf(t, tt.metrics))
		})
	}
}

// TestQueryOfTheReadme verifies that the query for Prometheus has an answer in every case, too.
func TestQueryOfTheReadme(t *testing.T) {
	query := block(t, "promql", "kernelsym_frames")
	unnamed := node("a", counter(frames("a", main, "unresolved"), 60))
	for name, tt := range map[string]struct {
		exposed memory
		want    float64
	}{
		"nothing is scraped": {nil, 0},
		"nothing arrives":    {with(node("a"), always(frames("a", main, "resolved"), 5), always(frames("a", other, "resolved"), 5)), 0},
		"no names":           {without(unnamed, frames("a", main, "resolved"), frames("a", other, "resolved")), 0},
		"all have names":     {node("a", counter(frames("a", main, "named"), 60)), 1},
		"half": {
			without(node("a", counter(frames("a", main, "named"), 60), counter(frames("a", main, "foreign"), 60)),
				frames("a", main, "resolved"), frames("a", other, "resolved")), 0.5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			vector := answer(t, query, tt.exposed)
			require.Len(t, vector, 1)
			assert.InDelta(t, tt.want, vector[0].F, 1e-9)
		})
	}
}
