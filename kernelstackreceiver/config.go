// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	_ "embed" // of the schema
	"fmt"

	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
)

//go:embed config.schema.json
var configSchema []byte

// Unmarshal reads the configuration. Its error says which keys and values are accepted.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := configkeys.Unmarshal(conf, c, configSchema); err != nil {
		return err
	}
	size, err := c.bufferSize()
	if err == nil && c.Containers && size < minContainersBuffer {
		return fmt.Errorf("buffer is %q: with containers, it must be at least 16KiB, as records of new cgroups are large", c.Buffer)
	}
	return err
}

// The sizes that a ring buffer can have, in bytes.
const (
	minBuffer = 4 << 10
	maxBuffer = 1 << 30

	minContainersBuffer = 16 << 10
)

// bufferSize returns the size of a ring buffer in bytes.
func (c *Config) bufferSize() (int, error) {
	n, err := configkeys.ParseSizeBetween(c.Buffer, minBuffer, maxBuffer)
	if err != nil {
		return 0, fmt.Errorf("buffer is %q: %w", c.Buffer, err)
	}
	return int(n), nil
}

func (c *Config) options() kernelstack.Options {
	buffer, _ := c.bufferSize() // the configuration was validated
	return kernelstack.Options{
		Event: c.Event, Frequency: c.Frequency, Idle: c.Idle, Buffer: buffer,
		Interval: c.Interval, MaxSamples: c.MaxSamples,
		Containers: c.Containers, Procfs: c.Procfs, Sysfs: c.Sysfs, Cgroupfs: c.Cgroupfs,
	}
}
