// SPDX-License-Identifier: Apache-2.0

// Package configkeys makes configuration errors say what to write instead: which keys exist,
// and which values they accept.
package configkeys

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"
)

// Unmarshal reads config, a pointer to a struct, from conf. It refuses values that would not be
// read as they are written, keys that do not exist, and values that the JSON schema of the
// struct does not accept.
func Unmarshal(conf *confmap.Conf, config any, schema []byte) error {
	if err := errors.Join(checkWritten("", conf, reflect.ValueOf(config).Elem())...); err != nil {
		return err
	}
	if err := conf.Unmarshal(config); err != nil {
		return Explain(err, config)
	}
	return checkValues(config, schema)
}

// Explain returns an error from unmarshaling config, a pointer to a struct. It adds the
// accepted keys to an error about an unknown key. A nil error stays nil.
func Explain(err error, config any) error {
	if err == nil || !strings.Contains(err.Error(), "has invalid keys") { // a message of mapstructure
		return err
	}
	return fmt.Errorf("%w\naccepted keys: %s", err, strings.Join(keys("", reflect.TypeOf(config).Elem()), ", "))
}

// keys returns the keys of a struct, each with the kind of value it takes. Nested keys have the
// form "a::b". A struct of another package is a section; its own documentation lists its keys.
func keys(prefix string, t reflect.Type) (all []string) {
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("mapstructure"), ",")
		if key == "" {
			continue
		}
		key = prefix + key
		switch field := t.Field(i).Type; {
		case field == reflect.TypeFor[time.Duration]():
			all = append(all, key+" (duration)")
		case field.Kind() == reflect.Struct && field.PkgPath() != t.PkgPath():
			all = append(all, key+" (section)")
		case field.Kind() == reflect.Struct:
			all = append(all, keys(key+"::", field)...)
		default:
			all = append(all, key+" ("+field.Kind().String()+")")
		}
	}
	slices.Sort(all)
	return all
}
