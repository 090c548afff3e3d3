// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/elasticsearchexporter"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/xexporter"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// An elastic is a stand-in for Elasticsearch that keeps the documents it receives.
type elastic struct {
	mu     sync.Mutex
	events []document          // profiling-events-all
	traces map[string]document // profiling-stacktraces, by id
	frames map[string]document // profiling-stackframes, by id
	wrong  []error             // requests that it could not parse
}

// A document has the fields of documents that the tests check.
type document struct {
	Trace     string   `json:"Stacktrace.id"`
	FrameIDs  string   `json:"Stacktrace.frame.ids"`
	Functions []string `json:"Stackframe.function.name"`
}

// An action is the line before a document in a bulk request.
type action map[string]struct {
	Index string `json:"_index"`
	ID    string `json:"_id"`
}

func (e *elastic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != "/_bulk" {
		_, _ = io.WriteString(w, `{"version": {"number": "9.2.0"}}`)
		return
	}
	items, err := e.bulk(r)
	if err != nil {
		e.wrong = append(e.wrong, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"took": 1, "errors": false, "items": items})
}

// bulk stores the documents of a request and returns the answer to each.
func (e *elastic) bulk(r *http.Request) (items []any, err error) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return nil, err
		}
	}
	for lines := json.NewDecoder(body); lines.More(); {
		var a action
		var d document
		if err := cmp.Or(lines.Decode(&a), lines.Decode(&d)); err != nil {
			return nil, err
		}
		for kind, to := range a {
			switch to.Index {
			case "profiling-events-all":
				e.events = append(e.events, d)
			case "profiling-stacktraces":
				e.traces[to.ID] = d
			case "profiling-stackframes":
				e.frames[to.ID] = d
			}
			items = append(items, map[string]any{kind: map[string]any{"_index": to.Index, "status": http.StatusCreated}})
		}
	}
	return items, nil
}

// stacks returns the function names of each event's stack, as stacksOf does.
func (e *elastic) stacks() (stacks []string, err error) {
	const idLength = 32 // 24 bytes in base64
	for _, event := range e.events {
		trace, ok := e.traces[event.Trace]
		if !ok || len(trace.FrameIDs)%idLength != 0 {
			return nil, fmt.Errorf("no stack of an event, or an odd one: %+v", trace)
		}
		var names []string
		for id := range slices.Chunk([]byte(trace.FrameIDs), idLength) {
			names = append(names, fmt.Sprint(e.frames[string(id)].Functions))
		}
		slices.Reverse(names) // the root comes first
		stacks = append(stacks, strings.Join(names, " "))
	}
	slices.Sort(stacks)
	return stacks, nil
}

// stacksOf returns the function names of the stack of each event in a message, sorted.
func stacksOf(pd pprofile.Profiles) (stacks []string) {
	for _, s := range rewritetest.Samples(pd) {
		var names []string
		for _, f := range s.Stack {
			functions := []string{}
			for _, l := range f.Lines {
				functions = append(functions, l.Name)
			}
			names = append(names, fmt.Sprint(functions))
		}
		for range s.Timestamps {
			stacks = append(stacks, strings.Join(names, " "))
		}
	}
	slices.Sort(stacks)
	return stacks
}

// requireDelivered sends a message through Elastic's exporter and requires that each event
// arrives, with the names of all its frames.
func requireDelivered(t *testing.T, pd pprofile.Profiles) {
	t.Helper()
	e, err := deliver(t, pd)
	require.NoError(t, err)
	require.Empty(t, e.wrong)
	got, err := e.stacks()
	require.NoError(t, err)
	require.NotEmpty(t, got)
	require.Equal(t, stacksOf(pd), got)
}

// deliver sends a message through Elastic's exporter and returns the exporter's error.
func deliver(t *testing.T, pd pprofile.Profiles) (*elastic, error) {
	t.Helper()
	e := &elastic{traces: make(map[string]document), frames: make(map[string]document)}
	server := httptest.NewServer(e)
	defer server.Close()

	factory := elasticsearchexporter.NewFactory().(xexporter.Factory)
	config := factory.CreateDefaultConfig().(*elasticsearchexporter.Config)
	config.Endpoints = []string{server.URL}
	config.QueueBatchConfig = configoptional.None[exporterhelper.QueueBatchConfig]() // so that errors are returned
	exp, err := factory.CreateProfiles(t.Context(), exporter.Settings{
		ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings(),
	}, config)
	require.NoError(t, err)
	require.NoError(t, exp.Start(t.Context(), componenttest.NewNopHost()))
	err = exp.ConsumeProfiles(t.Context(), pd)
	require.NoError(t, exp.Shutdown(t.Context()))
	return e, err
}
