// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

const machineID = "4a5a9b0affb66c437abcd455d2738af8"

func TestIsForeign(t *testing.T) {
	h := &Host{known: map[string][]string{
		hostID:   {machineID},
		hostName: {"node1.example.com"},
		nodeName: {"node1", "also-node1"},
	}}
	for _, tt := range []struct {
		name     string
		resource map[string]any
		want     bool
	}{
		{"nothing is said", nil, false},
		{"only other things", map[string]any{"service.name": "node2"}, false},
		{"the same ID", map[string]any{hostID: machineID}, false},
		{"another ID", map[string]any{hostID: "00000000000000000000000000000000"}, true},
		{"an ID that a cloud gives", map[string]any{hostID: "i-0123456789abcdef0"}, false},
		{"the same name", map[string]any{hostName: "node1.example.com"}, false},
		{"the same name, in capitals", map[string]any{hostName: "NODE1.example.com"}, false},
		{"the same name, short", map[string]any{hostName: "node1"}, false},
		{"a name that begins like it", map[string]any{hostName: "node11"}, true},
		{"another name", map[string]any{hostName: "node2.example.com"}, true},
		{"one of the node names", map[string]any{nodeName: "also-node1"}, false},
		{"another node", map[string]any{nodeName: "node2"}, true},
		{"another ID, but the same node", map[string]any{hostID: "00000000000000000000000000000000", nodeName: "node1"}, false},
		{"not a string", map[string]any{nodeName: 7}, false},
		{"empty", map[string]any{nodeName: ""}, false},
	} {
		r := pcommon.NewResource()
		require.NoError(t, r.Attributes().FromRaw(tt.resource))
		assert.Equal(t, tt.want, h.IsForeign(r), tt.name)
	}
}

func TestThisHostFromEnvironment(t *testing.T) {
	env := map[string]string{
		"OTEL_RESOURCE_ATTRIBUTES": "service.name=x, host.name = node%201 ,k8s.node.name=node1,host.id=%zz,broken",
		"K8S_NODE_NAME":            "node-from-downward-api",
	}
	h := ThisHost(t.TempDir(), func(key string) string { return env[key] })
	assert.Contains(t, h.known[hostName], "node 1")
	assert.Equal(t, []string{"node1", "node-from-downward-api"}, h.known[nodeName])
	assert.NotContains(t, h.known[hostID], "%zz")
}

// TestThisHostFromTheMachine believes the host's first process, not that of a
// container.
func TestThisHostFromTheMachine(t *testing.T) {
	procfs := t.TempDir()
	first := filepath.Join(procfs, "1")
	require.NoError(t, os.MkdirAll(filepath.Join(first, "root/etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(first, "root/etc/machine-id"), []byte(machineID+"\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(first, "ns"), 0o755))
	none := func(string) string { return "" }

	require.NoError(t, os.Symlink("uts:[4026532575]", filepath.Join(first, "ns/uts")))
	assert.NotContains(t, ThisHost(procfs, none).known[hostID], machineID)
	require.NoError(t, os.Remove(filepath.Join(first, "ns/uts")))
	require.NoError(t, os.Symlink("uts:[4026531838]", filepath.Join(first, "ns/uts")))
	h := ThisHost(procfs, none)
	assert.Contains(t, h.known[hostID], machineID)

	name, err := os.Hostname()
	require.NoError(t, err)
	if isHosts("/proc/self") {
		assert.Equal(t, []string{name}, h.known[hostName])
	} else {
		assert.Empty(t, h.known[hostName], "the name of a container says nothing")
	}
}

func TestHostOfWhichNothingIsKnown(t *testing.T) {
	r := pcommon.NewResource()
	r.Attributes().PutStr(hostName, "node2")
	h := ThisHost(t.TempDir(), func(string) string { return "" })
	if !isHosts("/proc/self") {
		assert.False(t, h.IsKnown())
		assert.False(t, h.IsForeign(r))
	}
	assert.False(t, (&Host{}).IsForeign(r))
	assert.False(t, (&Host{}).IsKnown())
	assert.True(t, ThisHost(t.TempDir(), func(key string) string { return map[string]string{"NODE_NAME": "n"}[key] }).IsKnown())
}
