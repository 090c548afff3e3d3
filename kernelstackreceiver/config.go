// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	_ "embed" // of the schema
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/locate"
)

//go:embed config.schema.json
var configSchema []byte

// Unmarshal reads the configuration. Its error says which keys and values are accepted.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := configkeys.Unmarshal(conf, c, configSchema); err != nil {
		return err
	}
	return errors.Join(checkBuffer("buffer", c.Buffer), checkBuffer("off_cpu::buffer", c.OffCPU.Buffer))
}

// The sizes that a ring buffer can have, in bytes.
const (
	minBuffer = 4 << 10
	maxBuffer = 1 << 30
)

// checkBuffer returns an error if the value of a key is not the size of a ring buffer.
func checkBuffer(key, value string) error {
	if _, err := configkeys.ParseSizeBetween(value, minBuffer, maxBuffer); err != nil {
		return fmt.Errorf("%s is %q: %w", key, value, err)
	}
	return nil
}

// options returns what to sample of threads that run.
func (c *Config) options() kernelstack.Options {
	o := c.common(c.Buffer)
	o.Threads = kernelstack.Running{Event: c.Event, Frequency: c.Frequency, Idle: c.Idle}
	return o
}

// waitOptions returns what to sample of threads that wait.
func (c *Config) waitOptions() kernelstack.Options {
	o := c.common(c.OffCPU.Buffer)
	o.Least, o.Buffers = min(o.Buffer, kernelstack.LeastSwitchBuffer), kernelstack.SwitchBuffers
	o.Threads = kernelstack.Waiting{Threshold: c.OffCPU.Threshold, MaxSwitches: c.OffCPU.MaxSwitches, Scheduler: c.OffCPU.Scheduler, Sum: c.OffCPU.Sum}
	return o
}

// common returns the options of both, with a size of ring buffers that was checked.
func (c *Config) common(buffer string) kernelstack.Options {
	size, _ := configkeys.ParseSizeBetween(buffer, minBuffer, maxBuffer)
	return kernelstack.Options{
		Buffer: int(size), Interval: c.Interval, MaxSamples: c.MaxSamples,
		Containers: c.Containers, ContainerID: c.ContainerID, Omit: c.SampleAttributes.omit(),
		Procfs: c.Procfs, Sysfs: c.Sysfs, Cgroupfs: c.Cgroupfs, Located: locate.Core,
	}
}

// omit returns the attributes that samples do not have.
func (a *SampleAttributes) omit() kernelstack.Omit {
	return kernelstack.Omit{Process: !a.Process, Thread: !a.Thread, ThreadName: !a.ThreadName, CPU: !a.CPU}
}
