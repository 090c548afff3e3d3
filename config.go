// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	_ "embed" // for configSchema
	"errors"

	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

//go:embed config.schema.json
var configSchema []byte

// Unmarshal reads the configuration. Its error says which keys and values are accepted.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	return errors.Join(configkeys.Unmarshal(conf, c, configSchema), checkHTTPKeys(conf))
}

// addresses has the settings by the values of the key.
var addresses = map[string]rewrite.Addresses{
	"auto": rewrite.AutoAddresses, "relative": rewrite.RelativeAddresses, "keep": rewrite.KeepAddresses, "hide": rewrite.HideAddresses,
}

// rewriteOptions returns the options of the rewrite.
func (c *Config) rewriteOptions() rewrite.Options {
	return rewrite.Options{
		All:               c.Rewrite == "all",
		Addresses:         addresses[c.Addresses],
		AbsoluteFromLocal: c.AbsoluteFrom == "local",
		Label:             c.Unresolved == "label",
		History:           c.History.TTL,
		DebugInfo:         c.DebugInfo.enabled(),
		Inline:            c.DebugInfo.Inline,
		Gateway:           !c.Local,
	}
}

// sourceOptions returns the options of the sources.
func (c *Config) sourceOptions() sources.Options {
	return sources.Options{
		Procfs: c.Procfs, Sysfs: c.Sysfs,
		History: timeline.Limits{TTL: c.History.TTL, MaxEntries: c.History.MaxEntries},
		Modules: sources.Modules{Enabled: c.Modules.Enabled, Settle: c.Modules.Settle},
		BPF:     sources.BPF{Enabled: c.Bpf.Enabled, SourceLines: c.Bpf.SourceLines, Trampolines: c.Bpf.Trampolines},
		Locate:  c.Locate,
	}
}
