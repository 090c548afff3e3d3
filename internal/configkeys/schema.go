// SPDX-License-Identifier: Apache-2.0

package configkeys

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A Schema is the part of a JSON schema that mdatagen writes.
type Schema struct {
	Type        string            `json:"type"`
	Description string            `json:"description"`
	Default     any               `json:"default"`
	Enum        []string          `json:"enum"`
	Pattern     string            `json:"pattern"`
	Minimum     *float64          `json:"minimum"` // in nanoseconds for durations
	Maximum     *float64          `json:"maximum"`
	Properties  map[string]Schema `json:"properties"`
}

// isDuration reports whether the value is a duration: mdatagen gives durations a pattern, but
// no format.
func (s Schema) isDuration() bool { return strings.Contains(s.Pattern, "ns|us") }

func (s Schema) isSize() bool { return isSize(fmt.Sprint(s.Default)) }

// isPath reports whether the value is an absolute path.
func (s Schema) isPath() bool { return s.Pattern == "^/" }

// Accepts describes the accepted values.
func (s Schema) Accepts() string {
	limit := func(v float64) any { return int64(v) }
	what := map[string]string{"integer": "an integer", "string": "a string"}[s.Type]
	switch {
	case s.Enum != nil:
		return "one of " + strings.Join(s.Enum, ", ")
	case s.isPath():
		return fmt.Sprintf("an absolute path, such as %v", s.Default)
	case s.isSize():
		return fmt.Sprintf("a size with a unit, such as %v", s.Default)
	case s.isDuration():
		what, limit = "a duration", func(v float64) any { return time.Duration(v) }
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		what += fmt.Sprintf(" from %v to %v", limit(*s.Minimum), limit(*s.Maximum))
	case s.Minimum != nil:
		what += fmt.Sprintf(" of at least %v", limit(*s.Minimum))
	case s.Maximum != nil:
		what += fmt.Sprintf(" of at most %v", limit(*s.Maximum))
	}
	return what
}

// checkValues returns an error for values of config, a pointer to a struct, that its schema does
// not accept.
func checkValues(config any, schema []byte) error {
	var s Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return err
	}
	return errors.Join(s.check("", reflect.ValueOf(config).Elem())...)
}

// check checks the fields of a struct against the properties of their keys.
func (s Schema) check(prefix string, v reflect.Value) (errs []error) {
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("mapstructure"), ",")
		property, ok := s.Properties[key]
		switch field := v.Field(i); {
		case !ok:
		case property.Properties != nil:
			errs = append(errs, property.check(prefix+key+"::", field)...)
		case !property.accepts(field):
			format := "%s is %v: it must be %s"
			if field.Kind() == reflect.String {
				format = "%s is %q: it must be %s"
			}
			errs = append(errs, fmt.Errorf(format, prefix+key, field.Interface(), property.Accepts()))
		}
	}
	return errs
}

// accepts reports whether a value is accepted.
func (s Schema) accepts(v reflect.Value) bool {
	switch {
	case s.Enum != nil:
		return slices.Contains(s.Enum, v.String())
	case s.isPath():
		return strings.HasPrefix(v.String(), "/")
	case v.CanInt():
		n := float64(v.Int())
		return (s.Minimum == nil || n >= *s.Minimum) && (s.Maximum == nil || n <= *s.Maximum)
	}
	return true
}
