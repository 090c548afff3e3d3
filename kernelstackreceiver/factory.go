// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/kernelsym/kernelsym/kernelstackreceiver/internal/metadata"
)

// NewFactory returns the factory of the receiver "kernelstack".
func NewFactory() receiver.Factory {
	return xreceiver.NewFactory(
		metadata.Type,
		createDefaultConfig,
		xreceiver.WithProfiles(createProfiles, metadata.ProfilesStability),
	)
}

func createProfiles(
	_ context.Context, set receiver.Settings, config component.Config, next xconsumer.Profiles,
) (xreceiver.Profiles, error) {
	return newReceiver(set, config.(*Config), next)
}
