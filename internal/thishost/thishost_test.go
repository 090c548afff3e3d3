// SPDX-License-Identifier: Apache-2.0

package thishost

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const machineID = "4a5a9b0affb66c437abcd455d2738af8"

func TestFromEnvironment(t *testing.T) {
	env := map[string]string{
		"OTEL_RESOURCE_ATTRIBUTES": "service.name=x, host.name = node%201 ,k8s.node.name=node1,host.id=%zz,broken",
		"K8S_NODE_NAME":            "node-from-downward-api",
	}
	h := Read(t.TempDir(), func(key string) string { return env[key] })
	assert.Contains(t, h[Name], "node 1")
	assert.Equal(t, []string{"node1", "node-from-downward-api"}, h[Node])
	assert.NotContains(t, h[ID], "%zz")
}

// TestFromTheMachine verifies that the host's first process counts, and a container's does not.
func TestFromTheMachine(t *testing.T) {
	procfs := t.TempDir()
	first := filepath.Join(procfs, "1")
	require.NoError(t, os.MkdirAll(filepath.Join(first, "root/etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(first, "root/etc/machine-id"), []byte(machineID+"\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(first, "ns"), 0o755))
	none := func(string) string { return "" }

	require.NoError(t, os.Symlink("uts:[4026532575]", filepath.Join(first, "ns/uts")))
	assert.NotContains(t, Read(procfs, none)[ID], machineID)
	require.NoError(t, os.Remove(filepath.Join(first, "ns/uts")))
	require.NoError(t, os.Symlink("uts:[4026531838]", filepath.Join(first, "ns/uts")))
	h := Read(procfs, none)
	assert.Contains(t, h[ID], machineID)

	name, err := os.Hostname()
	require.NoError(t, err)
	if isHosts("/proc/self") {
		assert.Equal(t, []string{name}, h[Name])
	} else {
		assert.Empty(t, Read(t.TempDir(), none), "the names of a container say nothing")
	}
}
