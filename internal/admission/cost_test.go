// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
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
			assertBoundsJSON(t, text)
		})
	}
	for _, tt := range admissiontest.JSON {
		t.Run("JSON: "+tt.Name, func(t *testing.T) { assertBoundsJSON(t, tt.New(400_000)) })
	}
}

// assertBoundsJSON verifies that a message in JSON takes no more memory than its cost, and that it does not take more before it turns
// out to have an error. Then nothing is left, and all that was allocated must be less than twice the cost: the arrays
// of a growing slice take up to five times its size together, and the cost includes 2.25 times.
func assertBoundsJSON(t *testing.T, text []byte) {
	t.Helper()
	want, err := costJSON(text)
	require.NoError(t, err)
	live, allocated := memoryOf(text, func(text []byte) any {
		pd, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(text)
		if err != nil {
			return nil
		}
		return pd
	})
	assert.GreaterOrEqual(t, want, live)
	assert.GreaterOrEqual(t, 2*want+100_000, allocated)
}

// decoded decodes a message, and returns the bytes that it takes at the end.
func decoded(t *testing.T, message []byte, decode func([]byte) (pprofile.Profiles, error)) (pd pprofile.Profiles, live int64) {
	t.Helper()
	live, _ = memoryOf(message, func(message []byte) any {
		var err error
		pd, err = decode(message)
		require.NoError(t, err)
		return pd
	})
	return pd, live
}

// memoryOf returns the bytes that the decoded message takes at the end, and those that were allocated until then.
func memoryOf(message []byte, decode func([]byte) any) (live, allocated int64) {
	var before, decoded, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	result := decode(message)
	runtime.ReadMemStats(&decoded)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(message)
	runtime.KeepAlive(result)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc), int64(decoded.TotalAlloc - before.TotalAlloc) //nolint:gosec // small
}

// FuzzCostJSON verifies that no text that repeats a part takes more memory than its cost.
func FuzzCostJSON(f *testing.F) {
	for _, s := range admissiontest.JSON {
		f.Add(s.Before, s.Entry, s.After)
	}
	f.Fuzz(func(t *testing.T, before, entry, after string) {
		if entry == "" {
			return
		}
		if text := (admissiontest.JSONShape{Before: before, Entry: entry, After: after}).New(100_000); json.Valid(text) {
			assertBoundsJSON(t, text)
		}
	})
}

// TestCostOfJSON verifies that a message of profilers in JSON costs no more for its size than in Protobuf.
func TestCostOfJSON(t *testing.T) {
	text, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(profiles())
	require.NoError(t, err)
	n, err := costJSON(text)
	require.NoError(t, err)
	t.Logf("cost %.1f", float64(n)/float64(len(text)))
	assert.LessOrEqual(t, n, 12*int64(len(text)))
}

// TestCostRefusesJSON verifies that text is refused that is not JSON, or deeper than a stack should be.
func TestCostRefusesJSON(t *testing.T) {
	for _, text := range []string{"", "{", "[}]", `{"resourceProfiles":[},},}]}`, `{"x":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + "}"} {
		_, err := costJSON([]byte(text))
		assert.ErrorIs(t, err, errMalformed, text)
	}
}

// profiles returns a profile as profilers send it.
func profiles() pprofile.Profiles {
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
	return pd
}

// TestCostOfProfiles verifies that a profile as profilers send it costs at most twelve times its size.
func TestCostOfProfiles(t *testing.T) {
	message, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(profiles())
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
