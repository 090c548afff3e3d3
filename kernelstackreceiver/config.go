package kernelstackreceiver

import (
	_ "embed" // of the schema
	"time"

	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

//go:embed config.schema.json
var configSchema []byte

// Unmarshal reads the configuration. The error says what is accepted.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	return configkeys.Unmarshal(conf, c, configSchema)
}

// window is the time that samples are held back to sort those of all CPUs.
const window = 2 * time.Millisecond

// events returns the events to sample by, the one to try first first.
func (c *Config) events() []perfring.Sampling {
	clock := perfring.Sampling{Frequency: uint64(c.Frequency), Idle: c.Idle}
	cycles := clock
	cycles.Cycles = true
	switch c.Event {
	case eventCycles:
		return []perfring.Sampling{cycles}
	case eventClock:
		return []perfring.Sampling{clock}
	}
	return []perfring.Sampling{cycles, clock}
}

func (c *Config) ringOptions(event perfring.Sampling) perfring.Options {
	return perfring.Options{Event: event, BytesPerCPU: c.Buffer, Window: window, SysFS: c.Sysfs}
}
