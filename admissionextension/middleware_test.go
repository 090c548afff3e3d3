// SPDX-License-Identifier: Apache-2.0

package admissionextension

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/kernelsym/kernelsym/admissionextension/internal/metadata"
	"github.com/kernelsym/kernelsym/admissionextension/internal/metadatatest"
	"github.com/kernelsym/kernelsym/internal/admission"
)

// TestConfig verifies the defaults, which the manifests rely on, and that errors name the key.
func TestConfig(t *testing.T) {
	c := createDefaultConfig().(*Config)
	require.NoError(t, confmap.New().Unmarshal(c))
	assert.Equal(t, &Config{Headroom: "160MiB", MaxMessage: "48MiB"}, c)
	for want, wrong := range map[string]map[string]any{
		`headroom is "much"`:   {"headroom": "much"},
		`max_message is "0"`:   {"max_message": "0"},
		"max_messages":         {"max_messages": "1MiB"},
		`max_message is "48"`:  {"max_message": "48"},
		`headroom is "160 XB"`: {"headroom": "160 XB"},
	} {
		assert.ErrorContains(t, confmap.NewFromStringMap(wrong).Unmarshal(createDefaultConfig()), want)
	}
}

// TestRefusalsAreCounted verifies that each reason has a count of its own.
func TestRefusalsAreCounted(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	set := extensiontest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	m, err := newMiddleware(set, createDefaultConfig().(*Config))
	require.NoError(t, err)
	m.countRefused(admission.ErrBusy)
	m.countRefused(admission.ErrBusy)
	m.countRefused(admission.ErrTooLarge)
	m.countRefused(errors.New("another"))
	var want []metricdata.DataPoint[int64]
	for reason, n := range map[string]int64{"busy": 2, "too_large": 1, "malformed": 1} {
		want = append(want, metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String("reason", reason)), Value: n})
	}
	metadatatest.AssertEqualExtensionAdmissionRefusedRequests(t, telemetry, want, metricdatatest.IgnoreTimestamp())
	require.NoError(t, m.Shutdown(t.Context()))
	require.NoError(t, telemetry.Shutdown(t.Context()))
}
