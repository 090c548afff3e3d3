// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/kernelsymprocessor"
)

// notes has the build id deadbeef.
var notes = append(binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil,
	4), 4), 3), "GNU\x00\xde\xad\xbe\xef"...)

// TestResource verifies the attributes of the kernel and its host, and that the processor on this host
// accepts them. The host's name counts only if it is not a container's.
func TestResource(t *testing.T) {
	hostName, node := map[string]any{}, map[string]any{"k8s.node.name": "node1"}
	if link, err := os.Readlink("/proc/self/ns/uts"); err == nil && link == "uts:[4026531838]" {
		name, err := os.Hostname()
		require.NoError(t, err)
		hostName = map[string]any{"host.name": name}
		node = hostName
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		env   map[string]string
		want  map[string]any
		host  map[string]any
	}{
		{
			"all", map[string]string{"proc/sys/kernel/osrelease": "6.12.0-test\n", "sys/kernel/notes": string(notes)}, nil,
			map[string]any{"service.name": "kernel", "os.version": "6.12.0-test", "os.build_id": "deadbeef"}, hostName,
		},
		{"a pod", nil, map[string]string{"K8S_NODE_NAME": "node1"}, map[string]any{"service.name": "kernel"}, node},
		{
			"a name that is set", nil, map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "service.name=x,host.name=node1"},
			map[string]any{"service.name": "kernel"}, map[string]any{"host.name": "node1"},
		},
		{
			"a name that is not UTF-8", nil, map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "host.name=%FF"},
			map[string]any{"service.name": "kernel"}, hostName,
		},
		{"nothing", nil, nil, map[string]any{"service.name": "kernel"}, hostName},
		{
			"not a build id", map[string]string{"sys/kernel/notes": "garbage"}, nil, map[string]any{"service.name": "kernel"}, hostName,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range c.files {
				file := filepath.Join(root, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			getenv := func(key string) string { return c.env[key] }
			procfs := filepath.Join(root, "proc")
			got := pcommon.NewResource()
			for key, value := range resource(procfs, filepath.Join(root, "sys"), getenv) {
				got.Attributes().PutStr(key, value)
			}
			for key, value := range c.host {
				c.want[key] = value
			}
			assert.Equal(t, c.want, got.Attributes().AsRaw())
			assert.False(t, kernelsymprocessor.ThisHost(procfs, getenv).IsForeign(got))
		})
	}
}
