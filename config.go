package kernelsym

import (
	"errors"

	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// Unmarshal reads the configuration. A key that does not exist is refused with
// those that do, and a duration without a unit.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := configkeys.CheckUnits(conf, c); err != nil {
		return err
	}
	return errors.Join(configkeys.Explain(conf.Unmarshal(c), c), checkHTTPKeys(conf))
}

// rewriteOptions returns what the configuration says of the rewrite.
func (c *Config) rewriteOptions() rewrite.Options {
	return rewrite.Options{
		All:           c.Rewrite == "all",
		KeepAddresses: c.Addresses == "keep",
		Label:         c.Unresolved == "label",
		History:       c.History.TTL,
		DebugInfo:     c.DebugInfo.enabled(),
		Inline:        c.DebugInfo.Inline,
		Gateway:       !c.Local,
	}
}

// sourceOptions returns what the configuration says of the sources.
func (c *Config) sourceOptions() sources.Options {
	return sources.Options{
		Procfs: c.Procfs, Sysfs: c.Sysfs,
		History: symtab.Limits{TTL: c.History.TTL, MaxEntries: c.History.MaxEntries},
		Modules: sources.Modules{Enabled: c.Modules.Enabled, Settle: c.Modules.Settle},
		BPF:     sources.BPF{Enabled: c.Bpf.Enabled, SourceLines: c.Bpf.SourceLines, Trampolines: c.Bpf.Trampolines},
	}
}
