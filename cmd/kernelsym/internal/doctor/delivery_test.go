// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// serve serves metrics that differ with each request; the last ones stay. It returns their URL.
func serve(t *testing.T, each ...string) string {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(each[min(int(requests.Add(1)), len(each))-1]))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/metrics"
}

// metricsOf has the metrics of a collector that has accepted samples, followed by lines about its exporters.
func metricsOf(accepted int, exporters string) string {
	return fmt.Sprintf("# TYPE otelcol_receiver_accepted_profile_samples counter\n"+
		"otelcol_receiver_accepted_profile_samples{receiver=\"otlp\",transport=\"grpc\"} %d\n"+
		"otelcol_receiver_accepted_profile_samples{receiver=\"kernelstack\"} 5\n"+
		"otelcol_exporter_queue_size{data_type=\"logs\",exporter=\"otlp_grpc/logs\"} 7\n%s", accepted, exporters)
}

func sentBy(id string, samples int) string {
	return fmt.Sprintf("otelcol_exporter_sent_profile_samples{exporter=%q,server_address=\"a\"} %d\n", id, samples)
}

func failedBy(id string, samples int) string {
	return fmt.Sprintf("otelcol_exporter_send_failed_profile_samples{exporter=%q} %d\n", id, samples)
}

func queueOf(messages int) string {
	return fmt.Sprintf("otelcol_exporter_queue_size{data_type=\"profiles\",exporter=\"otlp_grpc\"} %d\n", messages)
}

// TestDelivery verifies the findings about a collector, given the metrics that it reports during the check.
func TestDelivery(t *testing.T) {
	type said struct {
		level Level
		found string
	}
	for name, tt := range map[string]struct {
		metrics []string
		want    []said
	}{
		"everything is sent": {
			[]string{metricsOf(10, sentBy("file", 15)), metricsOf(10, sentBy("file", 15)), metricsOf(30, sentBy("file", 15)), metricsOf(40, sentBy("file", 35))},
			[]said{{OK, "exporter file sent 20 samples within "}},
		},
		"a new exporter": {
			[]string{metricsOf(0, ""), metricsOf(20, sentBy("file", 20))}, []said{{OK, "exporter file sent 20 samples"}},
		},
		"the names of counters end in total": {
			[]string{"", "otelcol_receiver_accepted_profile_samples_total{receiver=\"otlp\"} 3\notelcol_exporter_sent_profile_samples_total{exporter=\"file\"} 3\n"},
			[]said{{OK, "exporter file sent 3 samples"}},
		},
		"nothing is sent": {
			[]string{metricsOf(10, queueOf(3)), metricsOf(30, queueOf(4))},
			[]said{{Warn, "exporter otlp_grpc sent nothing within 0s, although 20 samples arrived; 4 messages in its queue"}},
		},
		"nothing is sent any more": {
			[]string{metricsOf(10, sentBy("otlp_grpc", 15)), metricsOf(30, sentBy("otlp_grpc", 15))},
			[]said{{Warn, "exporter otlp_grpc sent nothing within 0s, although 20 samples arrived"}},
		},
		"one of two sends": {
			[]string{metricsOf(10, sentBy("file", 15)+queueOf(1)), metricsOf(30, sentBy("file", 35)+queueOf(1))},
			[]said{{OK, "exporter file sent 20"}, {Warn, "exporter otlp_grpc sent nothing within 0s, although 20 samples arrived; 1 message in its queue"}},
		},
		"some fail": {
			[]string{metricsOf(10, sentBy("file", 15)), metricsOf(30, sentBy("file", 20)+failedBy("file", 15))},
			[]said{{Warn, "exporter file failed to send 15 samples within 0s"}},
		},
		"some failed before": {
			[]string{metricsOf(10, sentBy("file", 5)+failedBy("file", 10)), metricsOf(30, sentBy("file", 25)+failedBy("file", 10))},
			[]said{{Note, "exporter file sends, but has failed to send 10 samples since the collector started"}},
		},
		"nothing arrives": {
			[]string{metricsOf(10, sentBy("file", 15))}, []said{{Warn, "no sample arrived within 0s, and 15 before"}},
		},
		"no exporter": {
			[]string{metricsOf(10, ""), metricsOf(30, "")}, []said{{Warn, "no exporter has sent anything"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{metrics: serve(t, tt.metrics...), pace: pace{arrive: 100 * time.Millisecond, poll: time.Millisecond}}
			findings := checkDelivery(t.Context(), m)
			assert.Empty(t, m.state.details.Metrics, "these are about exporters")
			if assert.Len(t, findings, len(tt.want)) {
				for i, f := range findings {
					assert.Equal(t, tt.want[i].level, f.Level)
					assert.Contains(t, f.Found, tt.want[i].found)
					assert.Equal(t, f.Level == Warn, f.Lost != "" && len(f.Remedy) > 0)
				}
			}
		})
	}
	assert.Empty(t, checkDelivery(t.Context(), new(machine)), "no collector was named")
}

// TestMetricsForABugReport verifies which of the lines that a collector serves are details of the report: the last ones.
func TestMetricsForABugReport(t *testing.T) {
	lines := func(symbols int) string {
		return metricsOf(symbols, "# HELP otelcol_processor_kernelsym_symbols Number of known symbols.\n"+
			fmt.Sprintf("otelcol_processor_kernelsym_symbols{origin=\"kernel\"} %d\n", symbols)+
			"target_info{host_name=\"secret\"} 1\n"+
			"otelcol_exporter_sent_samples{exporter=\"otlp/secret\"} 1\n"+
			"otelcol_process_memory_rss{} 1.5e+08\n")
	}
	m := &machine{metrics: serve(t, lines(1), lines(2)), pace: pace{arrive: 100 * time.Millisecond, poll: time.Millisecond}}
	checkDelivery(t.Context(), m)
	assert.Equal(t, []string{`otelcol_processor_kernelsym_symbols{origin="kernel"} 2`, "otelcol_process_memory_rss{} 1.5e+08"}, m.state.details.Metrics)
}

// TestHostileCollector verifies that the id of an exporter does not control the terminal, and that JSON has it as it is.
func TestHostileCollector(t *testing.T) {
	const id, shown = "\x1b]0;pwned\x07\u202e\u009b", "\uFFFD]0;pwned\uFFFD\uFFFD\uFFFD"
	exporter := "otelcol_exporter_sent_profile_samples{exporter=\"" + id + "\"} "
	m := &machine{metrics: serve(t, metricsOf(10, exporter+"15\n"), metricsOf(30, exporter+"35\n")), pace: pace{arrive: 100 * time.Millisecond, poll: time.Millisecond}}
	r := Report{Findings: checkDelivery(t.Context(), m)}
	var text, programs strings.Builder
	require.NoError(t, r.WriteText(printable.New(&text, true), Columns))
	assert.Contains(t, text.String(), "exporter "+shown+" sent 20 samples")
	require.NoError(t, r.WriteJSON(printable.New(&programs, false)))
	assert.Contains(t, programs.String(), `exporter \u001b]0;pwned\u0007\u202e\u009b sent 20 samples`)
}

// TestMetricsCannotBeRead verifies that the report says so, without the URL, which can contain a password.
func TestMetricsCannotBeRead(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	findings := checkDelivery(t.Context(), &machine{metrics: server.URL + "?secret"})
	assert.Equal(t, "the metrics could not be read: the server answers 404 Not Found", findings[0].Found)
	server.Close()
	f := checkDelivery(t.Context(), &machine{metrics: server.URL + "?secret"})[0]
	assert.Equal(t, Warn, f.Level)
	assert.Contains(t, f.Found, "connection refused")
	assert.NotContains(t, f.Found, "secret")
}
