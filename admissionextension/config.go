// SPDX-License-Identifier: Apache-2.0

package admissionextension

import (
	_ "embed" // of the schema
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/configkeys"
)

//go:embed config.schema.json
var configSchema []byte

// Unmarshal reads the configuration. Its error says which keys and values are accepted.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := configkeys.Unmarshal(conf, c, configSchema); err != nil {
		return err
	}
	var errs []error
	for key, value := range map[string]string{"headroom": c.Headroom, "max_message": c.MaxMessage} {
		if _, err := configkeys.ParseSize(value); err != nil {
			errs = append(errs, fmt.Errorf("%s is %q: %w", key, value, err))
		}
	}
	return errors.Join(errs...)
}
