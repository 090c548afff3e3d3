// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/packs"
)

// fetchTimeout is the default of debug_info::http::timeout. It bounds a whole request,
// including reading the response.
const fetchTimeout = time.Minute

// defaultConfig returns the default configuration: the generated one, plus the settings of the
// HTTP client, whose keys the collector defines.
func defaultConfig() component.Config {
	c := createDefaultConfig().(*Config)
	c.DebugInfo.HTTP = confighttp.NewDefaultClientConfig()
	c.DebugInfo.HTTP.Timeout = fetchTimeout
	return c
}

// enabled reports whether the configuration asks for packs.
func (d *DebugInfo) enabled() bool { return d.Directory != "" || d.URL != "" }

// packOptions returns the options of packs. The configuration must be valid.
func (c *Config) packOptions() packs.Options {
	maxBytes, _ := configkeys.ParseSize(c.DebugInfo.MaxBytes)
	maxDisk, _ := configkeys.ParseSize(c.DebugInfo.MaxDisk)
	return packs.Options{
		Directory: c.DebugInfo.Directory, URL: c.DebugInfo.URL, MaxBytes: maxBytes, MaxDisk: maxDisk, Gateway: !c.Local,
	}
}

// validatePacks validates the keys local, locate and debug_info.
func validatePacks(c *Config) error {
	d := &c.DebugInfo
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !c.Local && !d.enabled() {
		add("local is false, so all names come from packs: set debug_info::directory or debug_info::url")
	}
	if c.Locate {
		errs = append(errs, checkLocate(c))
	}
	if d.Directory != "" && !filepath.IsAbs(d.Directory) {
		add("debug_info::directory is %q: it must be an absolute path, such as /var/lib/kernelsym/packs", d.Directory)
	}
	if d.URL != "" {
		if err := checkURL(d.URL); err != nil {
			add("debug_info::url is %q: %w", d.URL, err)
		}
	}
	for _, size := range []struct{ key, value string }{{"max_bytes", d.MaxBytes}, {"max_disk", d.MaxDisk}} {
		if _, err := configkeys.ParseSize(size.value); err != nil {
			add("debug_info::%s is %q: %w", size.key, size.value, err)
		}
	}
	if d.HTTP.Endpoint != "" {
		add("debug_info::http::endpoint is %q: remove it and set debug_info::url", d.HTTP.Endpoint)
	}
	if d.URL != "" && d.HTTP.Timeout <= 0 {
		add("debug_info::http::timeout is %v: it must be a duration of more than 0s", d.HTTP.Timeout)
	}
	return errors.Join(errs...)
}

// checkLocate returns an error if locate: true contradicts other keys.
func checkLocate(c *Config) error {
	switch {
	case !c.Local:
		return errors.New("locate is true, but local is false: a gateway has no kernel to locate")
	case !c.DebugInfo.enabled():
		return errors.New("locate is true, so names come from packs: set debug_info::directory or debug_info::url")
	case c.Addresses == "keep":
		return errors.New(`locate is true, so addresses must not be keep: they would tell where the kernel is. Use auto, hide or relative`)
	}
	return nil
}

// checkURL validates debug_info::url.
func checkURL(raw string) error {
	if !strings.Contains(raw, packs.BuildIDPlaceholder) {
		return fmt.Errorf("it must be a URL that contains %s", packs.BuildIDPlaceholder)
	}
	expanded := packs.Expand(raw, "0123456789abcdef")
	if strings.ContainsAny(expanded, "{}") {
		return fmt.Errorf("the only placeholders are %s and %s", packs.BuildIDPlaceholder, packs.FormatPlaceholder)
	}
	u, err := url.Parse(expanded)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("it must be an http or https URL")
	}
	return nil
}

// checkHTTPKeys returns an error for keys that the HTTP client does not have. Its own
// configuration ignores them.
func checkHTTPKeys(conf *confmap.Conf) error {
	sub, err := conf.Sub("debug_info::http")
	if err != nil {
		return nil //nolint:nilerr // reading the configuration returns the same error
	}
	type http confighttp.ClientConfig // without the method Unmarshal
	keys := new(http)
	if err := configkeys.Explain(sub.Unmarshal(keys), keys); err != nil {
		return fmt.Errorf("debug_info::http: %w", err)
	}
	return nil
}
