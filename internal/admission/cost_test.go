// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kernelsym/kernelsym/internal/admission/admissiontest"
)

// TestCostBoundsMemory verifies that no message takes more memory than its cost, decoded from Protobuf or
// JSON, and that the cost is not much higher than that.
func TestCostBoundsMemory(t *testing.T) {
	for _, tt := range admissiontest.Shapes {
		t.Run(tt.Name, func(t *testing.T) {
			message := tt.New(400_000, false)
			want, err := cost(message)
			require.NoError(t, err)
			pd, live := decoded(t, message, (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles)
			assert.GreaterOrEqual(t, want, live)
			if tt.Name != "fields of a later version" {
				assert.Less(t, want, 4*live+5*int64(len(message)))
			}

			text, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(pd)
			require.NoError(t, err)
			_, live = decoded(t, text, (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles)
			assert.GreaterOrEqual(t, costJSON(text), live, "JSON")
		})
	}
}

// decoded decodes a message, and returns the bytes that it takes at the end.
func decoded(t *testing.T, message []byte, decode func([]byte) (pprofile.Profiles, error)) (pprofile.Profiles, int64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	pd, err := decode(message)
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(message)
	return pd, int64(after.HeapAlloc) - int64(before.HeapAlloc) //nolint:gosec // small
}

// TestCostOfProfiles verifies that a profile as profilers send it costs at most twelve times its size.
func TestCostOfProfiles(t *testing.T) {
	pd := pprofile.NewProfiles()
	p := pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	d := pd.Dictionary()
	d.MappingTable().AppendEmpty()
	for i := range 5_000 {
		d.StringTable().Append(fmt.Sprintf("function_%d", i))
		d.FunctionTable().AppendEmpty().SetNameStrindex(int32(i))
		location := d.LocationTable().AppendEmpty()
		location.SetAddress(0xffffffff81000000 + uint64(i))
		location.Lines().AppendEmpty().SetFunctionIndex(int32(i))
		attribute := d.AttributeTable().AppendEmpty()
		attribute.SetKeyStrindex(1)
		attribute.Value().SetInt(int64(i))
		stack := d.StackTable().AppendEmpty()
		for j := range 20 {
			stack.LocationIndices().Append(int32((i * j) % 5_000))
		}
		sample := p.Samples().AppendEmpty()
		sample.SetStackIndex(int32(i))
		sample.AttributeIndices().Append(int32(i), 1)
		sample.TimestampsUnixNano().Append(uint64(i) << 40)
	}
	message, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(pd)
	require.NoError(t, err)
	n, err := cost(message)
	require.NoError(t, err)
	_, live := decoded(t, message, (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles)
	t.Logf("cost %.1f, live %.1f", float64(n)/float64(len(message)), float64(live)/float64(len(message)))
	assert.LessOrEqual(t, n, 12*int64(len(message)))
}

// TestCostRefuses verifies that input that pdata might read differently is refused.
func TestCostRefuses(t *testing.T) {
	deep := []protowire.Number{2, 6, 2}
	for range maxDepth {
		deep = append(deep, 5, 1)
	}
	for name, message := range map[string][]byte{
		"half a field":        {1<<3 | 2},
		"a field too long":    {1<<3 | 2, 2, 0},
		"field 0":             {2, 0},
		"field 1 of 64 bits":  append(protowire.AppendVarint(nil, (1<<32+1)<<3|2), 0),
		"a group without end": {1<<3 | 3},
		"too deep":            admissiontest.Nested(deep, nil, 0),
	} {
		_, err := cost(message)
		assert.ErrorIs(t, err, errMalformed, name)
	}
}
