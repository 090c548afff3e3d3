package kernelsym

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
	"github.com/kernelsym/kernelsym/internal/packs"
)

// fetchTimeout is for a whole answer, unless debug_info::http::timeout says otherwise.
const fetchTimeout = time.Minute

// defaultConfig returns the default configuration: the generated one, with the settings of
// the HTTP client, whose keys are the collector's.
func defaultConfig() component.Config {
	c := createDefaultConfig().(*Config)
	c.DebugInfo.HTTP = confighttp.NewDefaultClientConfig()
	c.DebugInfo.HTTP.Timeout = fetchTimeout
	return c
}

// enabled reports whether packs are wanted.
func (d *DebugInfo) enabled() bool { return d.Directory != "" || d.URL != "" }

// packOptions returns what the configuration, which is valid, says of packs.
func (c *Config) packOptions() packs.Options {
	maxBytes, _ := parseSize(c.DebugInfo.MaxBytes)
	maxDisk, _ := parseSize(c.DebugInfo.MaxDisk)
	return packs.Options{
		Directory: c.DebugInfo.Directory, URL: c.DebugInfo.URL, MaxBytes: maxBytes, MaxDisk: maxDisk, Gateway: !c.Local,
	}
}

// validatePacks returns what is wrong with the keys local and debug_info.
func validatePacks(c *Config) error {
	d := &c.DebugInfo
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !c.Local && !d.enabled() {
		add("local is false: then debug_info::directory or debug_info::url has to say where packs come from, without which nothing is named")
	}
	if d.Directory != "" && !filepath.IsAbs(d.Directory) {
		add("debug_info::directory is %q: it takes an absolute path", d.Directory)
	}
	if d.URL != "" {
		if err := checkURL(d.URL); err != nil {
			add("debug_info::url is %q: %w", d.URL, err)
		}
	}
	for _, size := range []struct{ key, value string }{{"max_bytes", d.MaxBytes}, {"max_disk", d.MaxDisk}} {
		if _, err := parseSize(size.value); err != nil {
			add("debug_info::%s is %q: %w", size.key, size.value, err)
		}
	}
	if d.HTTP.Endpoint != "" {
		add("debug_info::http::endpoint is %q: leave it out, debug_info::url says where packs are", d.HTTP.Endpoint)
	}
	if d.URL != "" && d.HTTP.Timeout <= 0 {
		add("debug_info::http::timeout is %v: it takes a duration of more than 0", d.HTTP.Timeout)
	}
	return errors.Join(errs...)
}

// checkURL returns what is wrong with the URL of packs.
func checkURL(raw string) error {
	if !strings.Contains(raw, packs.BuildIDPlaceholder) {
		return fmt.Errorf("it takes a URL with %s in it", packs.BuildIDPlaceholder)
	}
	expanded := packs.Expand(raw, "0123456789abcdef")
	if strings.ContainsAny(expanded, "{}") {
		return fmt.Errorf("in braces, it takes %s and %s", packs.BuildIDPlaceholder, packs.FormatPlaceholder)
	}
	u, err := url.Parse(expanded)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("it takes an http or https URL")
	}
	return nil
}

// size is a number with a unit: without one, a number of megabytes would be one of bytes.
var size = regexp.MustCompile(`^[0-9]+(\.[0-9]+)? ?([kKMGT]i?)?B$`)

// parseSize returns a number of bytes.
func parseSize(s string) (int64, error) {
	if size.MatchString(s) {
		if n, err := humanize.ParseBytes(s); err == nil && 0 < n && n < 1<<62 {
			return int64(n), nil
		}
	}
	return 0, errors.New("it takes a size of more than 0 with a unit, such as 64MiB or 1GB")
}

// checkHTTPKeys returns an error for keys that HTTP clients do not have. Their own
// configuration overlooks them.
func checkHTTPKeys(conf *confmap.Conf) error {
	sub, err := conf.Sub("debug_info::http")
	if err != nil {
		return nil //nolint:nilerr // reading the configuration has the same error
	}
	type http confighttp.ClientConfig // without the method Unmarshal
	keys := new(http)
	if err := configkeys.Explain(sub.Unmarshal(keys), keys); err != nil {
		return fmt.Errorf("debug_info::http: %w", err)
	}
	return nil
}
