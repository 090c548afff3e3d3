// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/thishost"
)

const machineID = "4a5a9b0affb66c437abcd455d2738af8"

func TestIsForeign(t *testing.T) {
	h := &Host{known: thishost.Identity{
		thishost.ID:   {machineID},
		thishost.Name: {"node1.example.com"},
		thishost.Node: {"node1", "also-node1"},
	}}
	for _, tt := range []struct {
		name     string
		resource map[string]any
		want     bool
	}{
		{"nothing is said", nil, false},
		{"only other things", map[string]any{"service.name": "node2"}, false},
		{"the same ID", map[string]any{thishost.ID: machineID}, false},
		{"another ID", map[string]any{thishost.ID: "00000000000000000000000000000000"}, true},
		{"an ID that a cloud gives", map[string]any{thishost.ID: "i-0123456789abcdef0"}, false},
		{"the same name", map[string]any{thishost.Name: "node1.example.com"}, false},
		{"the same name, in capitals", map[string]any{thishost.Name: "NODE1.example.com"}, false},
		{"the same name, short", map[string]any{thishost.Name: "node1"}, false},
		{"the same name, longer", map[string]any{thishost.Name: "Node1.Example.com.local"}, false},
		{"a longer name that begins like it", map[string]any{thishost.Name: "node1.example.community"}, true},
		{"a node name that begins like it", map[string]any{thishost.Node: "node1.example.com"}, true},
		{"a name that begins like it", map[string]any{thishost.Name: "node11"}, true},
		{"another name", map[string]any{thishost.Name: "node2.example.com"}, true},
		{"one of the node names", map[string]any{thishost.Node: "also-node1"}, false},
		{"another node", map[string]any{thishost.Node: "node2"}, true},
		{"another ID, but the same node", map[string]any{thishost.ID: "00000000000000000000000000000000", thishost.Node: "node1"}, false},
		{"not a string", map[string]any{thishost.Node: 7}, false},
		{"empty", map[string]any{thishost.Node: ""}, false},
	} {
		r := pcommon.NewResource()
		require.NoError(t, r.Attributes().FromRaw(tt.resource))
		assert.Equal(t, tt.want, h.IsForeign(r), tt.name)
	}
}

func TestHostOfWhichNothingIsKnown(t *testing.T) {
	r := pcommon.NewResource()
	r.Attributes().PutStr(thishost.Name, "node2")
	assert.False(t, (&Host{}).IsForeign(r))
	assert.False(t, (&Host{}).IsKnown())
	assert.True(t, ThisHost(t.TempDir(), func(key string) string { return map[string]string{"NODE_NAME": "n"}[key] }).IsKnown())
}

// TestContract_6_1_ResourcesOfHostileMessages verifies that a resource is compared without lowering its values: many
// resources of a message can share one long string.
func TestContract_6_1_ResourcesOfHostileMessages(t *testing.T) {
	h := &Host{known: thishost.Identity{thishost.ID: {machineID}, thishost.Name: {"node1.example.com"}, thishost.Node: {"node1"}}}
	compared := 0
	for _, shape := range rewritetest.HostileShapes {
		for _, rp := range shape.New(100, [3]uint64{}).ResourceProfiles().All() {
			if rp.Resource().Attributes().Len() > 0 {
				assert.Zero(t, testing.AllocsPerRun(1, func() { h.IsForeign(rp.Resource()) }), shape.Name)
				compared++
			}
		}
	}
	assert.GreaterOrEqual(t, compared, 200)
}
