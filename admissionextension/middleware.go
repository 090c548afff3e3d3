// SPDX-License-Identifier: Apache-2.0

package admissionextension

import (
	"context"
	"errors"
	"net/http"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"github.com/kernelsym/kernelsym/admissionextension/internal/metadata"
	"github.com/kernelsym/kernelsym/internal/admission"
	"github.com/kernelsym/kernelsym/internal/configkeys"
)

// A middleware attaches its gate to the servers of receivers.
type middleware struct {
	gate    *admission.Gate
	metrics *metadata.TelemetryBuilder
}

var (
	_ extensionmiddleware.HTTPServer = (*middleware)(nil)
	_ extensionmiddleware.GRPCServer = (*middleware)(nil)
)

func newMiddleware(set extension.Settings, config *Config) (*middleware, error) {
	headroom, err := configkeys.ParseSize(config.Headroom)
	if err != nil {
		return nil, err
	}
	maxMessage, err := configkeys.ParseSize(config.MaxMessage)
	if err != nil {
		return nil, err
	}
	builder, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	m := &middleware{metrics: builder}
	m.gate, err = admission.New(headroom, maxMessage, m.countRefused)
	return m, err
}

// countRefused counts a request that was refused for a reason.
func (m *middleware) countRefused(reason error) {
	name := "malformed"
	switch {
	case errors.Is(reason, admission.ErrBusy):
		name = "busy"
	case errors.Is(reason, admission.ErrTooLarge):
		name = "too_large"
	}
	m.metrics.ExtensionAdmissionRefusedRequests.Add(context.Background(), 1,
		metric.WithAttributes(attribute.String("reason", name)))
}

// GetHTTPHandler implements extensionmiddleware.HTTPServer.
func (m *middleware) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) { return m.gate.Handler(next), nil }, nil
}

// GetGRPCServerOptions implements extensionmiddleware.GRPCServer.
func (m *middleware) GetGRPCServerOptions(context.Context) ([]grpc.ServerOption, error) {
	return m.gate.ServerOptions(), nil
}

// Start implements component.Component.
func (m *middleware) Start(context.Context, component.Host) error { return nil }

// Shutdown implements component.Component.
func (m *middleware) Shutdown(context.Context) error {
	m.metrics.Shutdown()
	return nil
}
