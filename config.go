package kernelsym

import (
	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symtab"
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

// sourceOptions returns what the configuration says of the sources. Processors with the
// same share a cache.
func (c *Config) sourceOptions() sources.Options {
	return sources.Options{
		Procfs: c.Procfs, Sysfs: c.Sysfs,
		History: symtab.Limits{TTL: c.History.TTL, MaxEntries: c.History.MaxEntries},
		Modules: sources.Modules{Enabled: c.Modules.Enabled, Settle: c.Modules.Settle},
		BPF:     sources.BPF{Enabled: c.Bpf.Enabled, SourceLines: c.Bpf.SourceLines, Trampolines: c.Bpf.Trampolines},
	}
}
