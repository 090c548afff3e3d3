package kernelstackreceiver

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

// minInterval is the shortest time between two profiles.
const minInterval = 100 * time.Millisecond

// Unmarshal reads the configuration. A key that does not exist is refused with
// those that do, and a duration without a unit.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := configkeys.CheckUnits(conf, c); err != nil {
		return err
	}
	if err := conf.Unmarshal(c); err != nil {
		return configkeys.Explain(err, c)
	}
	if c.Interval < minInterval {
		return fmt.Errorf("interval must be at least %s, not %s", minInterval, c.Interval)
	}
	return nil
}

// window is for how long samples are held back to bring those of all CPUs into
// order.
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
