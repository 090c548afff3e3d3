// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var update = flag.Bool("update", false, "update the rules of the Prometheus operator")

// A podMonitor has the fields of this kind of the Prometheus operator that the tests use.
type podMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port        string `json:"port"`
			Relabelings []struct {
				SourceLabels []string `json:"sourceLabels"`
				TargetLabel  string   `json:"targetLabel"`
			} `json:"relabelings"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// A prometheusRule is another kind of the Prometheus operator.
type prometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Groups []any `json:"groups"`
	} `json:"spec"`
}

const rulesHeader = `# The rules of deploy/prometheus/alerts.yaml. This file is written by
# ` + "`go test -C internal/test/deploytest -run TestOperatorRules -update`" + `.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kernelsym
  namespace: kernelsym
  labels:
    app.kubernetes.io/name: kernelsym
spec:
`

// TestOperatorRules verifies that the Prometheus operator gets the rules of
// deploy/prometheus/alerts.yaml.
func TestOperatorRules(t *testing.T) {
	const file = kubernetes + "components/prometheus-operator/rules.yaml"
	text, err := os.ReadFile(repository + "/deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	_, groups, found := strings.Cut(string(text), "\ngroups:\n")
	require.True(t, found)
	want := rulesHeader + "  groups:\n"
	for line := range strings.Lines(groups) {
		if line != "\n" {
			line = "  " + line
		}
		want += line
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644)) //nolint:gosec // for everybody
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, want, string(got))
	assert.NotEmpty(t, render(t, "components/prometheus-operator").rules[0].Spec.Groups)
}

// TestPodMonitor verifies that the operator finds the pods and their port.
func TestPodMonitor(t *testing.T) {
	m := render(t, everything)
	require.Len(t, m.podMonitors, 1)
	monitor := m.podMonitors[0]
	require.Len(t, m.pods(), 2)
	for owner, pod := range m.pods() {
		assert.True(t, containsAll(pod.Labels, monitor.Spec.Selector.MatchLabels), owner)
		assert.Equal(t, m.namespaces[0].Name, monitor.Namespace)
		for _, endpoint := range monitor.Spec.Endpoints {
			assert.True(t, hasPort(t, pod.Spec, endpoint.Port), owner)
			require.Len(t, endpoint.Relabelings, 1)
			assert.Equal(t, []string{"__meta_kubernetes_pod_node_name"}, endpoint.Relabelings[0].SourceLabels)
			assert.Equal(t, "node", endpoint.Relabelings[0].TargetLabel, "the label by which alerts name the node")
		}
	}
}

// TestNetworkPolicy verifies that the policy applies to all pods and allows their ports: who may read metrics is always
// restricted, who may send is with the component, and the same label never allows both.
func TestNetworkPolicy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sends bool // is restricted
	}{{"base", false}, {everything, true}} {
		m := render(t, tt.name)
		require.Len(t, m.policies, 1)
		policy := m.policies[0]
		assert.Equal(t, m.namespaces[0].Name, policy.Namespace)
		assert.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, policy.Spec.PolicyTypes)
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		require.NoError(t, err)
		assert.True(t, selector.Matches(labels.Set{"app.kubernetes.io/name": "kernelsym-collector"}), "the operator's name")
		for owner, pod := range m.pods() {
			assert.True(t, selector.Matches(labels.Set(pod.Labels)), owner)
			for _, p := range collectorOf(t, pod.Spec).Ports {
				restricted := map[string]bool{"otlp-grpc": tt.sends, "otlp-http": tt.sends, "health": false, "metrics": true}
				from, allowed := peersOf(&policy, p.ContainerPort)
				assert.True(t, allowed, "%s: %s", owner, p.Name)
				assert.Equal(t, restricted[p.Name], len(from) > 0, "%s: %s", owner, p.Name)
			}
		}
		senders, _ := peersOf(&policy, 4317)
		readers, _ := peersOf(&policy, 8888)
		for _, peer := range readers {
			require.NotNil(t, peer.NamespaceSelector)
			assert.NotEmpty(t, peer.NamespaceSelector.MatchLabels)
			assert.NotContains(t, senders, peer)
		}
	}
}

// peersOf returns the peers that may reach a port, empty if all may, and whether the port is open at all.
func peersOf(policy *networkingv1.NetworkPolicy, port int32) (from []networkingv1.NetworkPolicyPeer, allowed bool) {
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			if p.Port.IntVal == port {
				return rule.From, true
			}
		}
	}
	return nil, false
}

func hasPort(t *testing.T, pod corev1.PodSpec, name string) bool {
	t.Helper()
	for _, p := range collectorOf(t, pod).Ports {
		if p.Name == name {
			return true
		}
	}
	return false
}
