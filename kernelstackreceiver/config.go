// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	_ "embed" // of the schema

	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
)

//go:embed config.schema.json
var configSchema []byte

// Unmarshal reads the configuration. The error says what is accepted.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	return configkeys.Unmarshal(conf, c, configSchema)
}

func (c *Config) options() kernelstack.Options {
	return kernelstack.Options{
		Event: c.Event, Frequency: c.Frequency, Idle: c.Idle, Buffer: c.Buffer,
		Interval: c.Interval, MaxSamples: c.MaxSamples, Procfs: c.Procfs, Sysfs: c.Sysfs,
	}
}
