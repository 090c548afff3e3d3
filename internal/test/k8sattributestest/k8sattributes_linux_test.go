// SPDX-License-Identifier: Apache-2.0

package k8sattributestest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/k8sattributesprocessor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/processor/xprocessor"
	"gopkg.in/yaml.v3"

	"github.com/kernelsym/kernelsym"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

const node = "node-1"

var containerID = strings.Repeat("0a", 32)

// apiServer is a Kubernetes API server with one pod that records its requests.
type apiServer struct {
	mu    sync.Mutex
	asked map[string]bool
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[strings.TrimPrefix(r.URL.Path, "/api/v1/")] = true
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("sendInitialEvents") != "" { // as servers before Kubernetes 1.32 answer; a client then asks for a list
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422})
		return
	}
	if r.URL.Query().Get("watch") != "" {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"},
		"items": []any{map[string]any{
			"metadata": map[string]any{"name": "web-0", "namespace": "shop", "uid": "12-34", "creationTimestamp": "2026-01-01T00:00:00Z"},
			"spec":     map[string]any{"nodeName": node, "containers": []any{map[string]any{"name": "nginx", "image": "nginx:1"}}},
			"status": map[string]any{
				"podIP": "10.0.0.7", "startTime": "2026-01-01T00:00:00Z",
				"containerStatuses": []any{map[string]any{"name": "nginx", "containerID": "containerd://" + containerID, "restartCount": 0}},
			},
		}},
	})
}

// startAPIServer starts the server and makes it the one of the current kubeconfig.
func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{asked: make(map[string]bool)}
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}]}`, server.URL), 0o600))
	t.Setenv("KUBECONFIG", file)
	return s
}

// documented returns the processor's configuration in the documentation, which reads the kubeconfig here.
func documented(t *testing.T) *confmap.Conf {
	t.Helper()
	page, err := os.ReadFile("../../../docs/collector.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```yaml\nprocessors:\n  "+k8sattributesprocessor.NewFactory().Type().String()+":\n")
	require.True(t, found)
	text, _, _ := strings.Cut(rest, "```")
	var config map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &config))
	require.Equal(t, "serviceAccount", config["auth_type"])
	config["auth_type"] = "kubeConfig"
	return confmap.NewFromStringMap(config)
}

// start starts a processor in front of another component.
func start(t *testing.T, factory processor.Factory, conf *confmap.Conf, next xconsumer.Profiles) xconsumer.Profiles {
	t.Helper()
	config := factory.CreateDefaultConfig()
	require.NoError(t, conf.Unmarshal(config))
	require.NoError(t, confmap.Validate(config))
	p, err := factory.(xprocessor.Factory).CreateProfiles(t.Context(), processortest.NewNopSettings(factory.Type()), config, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p
}

// TestNamesOfPods sends stacks of a container through k8s_attributes and kernelsym, in either order. The pod has its name,
// the kernel frames have theirs, and nothing is taken for another host's.
func TestNamesOfPods(t *testing.T) {
	kerneltest.NeedAddresses(t)
	t.Setenv("K8S_NODE_NAME", node)
	symbols := kerneltest.ReadSymbols(t)
	names, address := symbols.Below(symbols.Stext + 0x1000)
	for _, first := range []string{"k8s_attributes", "kernelsym"} {
		t.Run(first+" first", func(t *testing.T) {
			server := startAPIServer(t)
			sink := new(consumertest.ProfilesSink)
			pods, kernel := k8sattributesprocessor.NewFactory(), kernelsym.NewFactory()
			none := confmap.New()
			var chain xconsumer.Profiles
			if first == "kernelsym" {
				chain = start(t, kernel, none, start(t, pods, documented(t), sink))
			} else {
				chain = start(t, pods, documented(t), start(t, kernel, none, sink))
			}
			var got pprofile.Profiles
			require.Eventually(t, func() bool { // the symbols and the pods are read in the background
				sink.Reset()
				require.NoError(t, chain.ConsumeProfiles(t.Context(), message(address)))
				got = sink.AllProfiles()[0]
				_, hasPod := got.ResourceProfiles().At(0).Resource().Attributes().Get("k8s.pod.name")
				return hasPod && len(rewritetest.Samples(got)[0].Stack[0].Lines) > 0
			}, time.Minute, 50*time.Millisecond)
			assert.Equal(t, map[string]any{
				"container.id": containerID, "k8s.pod.name": "web-0", "k8s.namespace.name": "shop", "k8s.pod.uid": "12-34",
				"k8s.container.name": "nginx",
			}, got.ResourceProfiles().At(0).Resource().Attributes().AsRaw())
			assert.Equal(t, 0, got.ResourceProfiles().At(1).Resource().Attributes().Len(), "the host has no pod")
			for _, s := range rewritetest.Samples(got) {
				require.Len(t, s.Stack[0].Lines, 1)
				assert.Contains(t, names, s.Stack[0].Lines[0].System)
			}
			server.mu.Lock()
			defer server.mu.Unlock()
			assert.Equal(t, map[string]bool{"pods": true}, server.asked)
			page, err := os.ReadFile("../../../docs/collector.md")
			require.NoError(t, err)
			assert.Contains(t, string(page), "  - {apiGroups: [\"\"], resources: [pods], verbs: [get, watch, list]}\n", "and nothing more")
		})
	}
}

// message returns a stack of the container and one of the host.
func message(address uint64) pprofile.Profiles {
	frame := rewritetest.Frame{Address: address, Type: "kernel"}
	scope := "github.com/kernelsym/kernelsym/kernelstackreceiver"
	m := rewritetest.NewMessage().Profile(map[string]any{"container.id": containerID}, scope).Sample(frame)
	return m.Profile(nil, scope).Sample(frame).Profiles
}
