// SPDX-License-Identifier: Apache-2.0

package admissionextension

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"github.com/kernelsym/kernelsym/admissionextension/internal/metadata"
)

// NewFactory returns the factory of the extension "admission".
func NewFactory() extension.Factory {
	return extension.NewFactory(metadata.Type, createDefaultConfig, create, metadata.ExtensionStability)
}

func create(_ context.Context, set extension.Settings, config component.Config) (extension.Extension, error) {
	return newMiddleware(set, config.(*Config))
}
