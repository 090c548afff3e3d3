package kernelsym

import (
	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// Unmarshal reads the configuration. A key that does not exist is refused with
// those that do.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	return configkeys.Explain(conf.Unmarshal(c), c)
}

// rewriteOptions returns what the configuration says of the rewrite.
func (c *Config) rewriteOptions() rewrite.Options {
	return rewrite.Options{
		All:           c.Rewrite == "all",
		KeepAddresses: c.Addresses == "keep",
		Label:         c.Unresolved == "label",
		History:       c.History.TTL,
	}
}

// sourceKey is what the configuration says of the sources. Processors with the
// same share a cache.
type sourceKey struct {
	procfs, sysfs string
	modules       Modules
	bpf           Bpf
	history       History
}

func (c *Config) sourceKey() sourceKey {
	return sourceKey{procfs: c.Procfs, sysfs: c.Sysfs, modules: c.Modules, bpf: c.Bpf, history: c.History}
}
