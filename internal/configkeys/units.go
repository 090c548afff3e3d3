// SPDX-License-Identifier: Apache-2.0

package configkeys

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"
)

// checkUnits returns an error for each duration that is a number without a unit, also in sections
// of other packages. It would be read as nanoseconds. 0 needs none. So it does for each size, a text
// that has a unit by default. The struct has its defaults.
func checkUnits(prefix string, conf *confmap.Conf, config reflect.Value) (errs []error) {
	for i := range config.NumField() {
		key, options, tagged := strings.Cut(config.Type().Field(i).Tag.Get("mapstructure"), ",")
		key = prefix + key
		switch field := optional(config.Field(i)); {
		case field.Kind() == reflect.String && isSize(field.String()):
			if n, ok := conf.Get(key).(int); ok {
				errs = append(errs, fmt.Errorf("%s: %d needs a unit, such as %s", key, n, field.String()))
			}
		case field.Type() == reflect.TypeFor[time.Duration]():
			value := fmt.Sprint(conf.Get(key))
			if n, err := strconv.ParseFloat(value, 64); err == nil && n != 0 {
				errs = append(errs, fmt.Errorf("%s: %s needs a unit, such as %s%s", key, value, value, unitOf(time.Duration(field.Int()))))
			}
		case field.Kind() != reflect.Struct:
		case tagged && strings.Contains(options, "squash"):
			errs = append(errs, checkUnits(prefix, conf, field)...)
		case key != prefix:
			errs = append(errs, checkUnits(key+"::", conf, field)...)
		}
	}
	return errs
}

// isSize reports whether a default is a size of memory or disk space.
func isSize(text string) bool { return strings.HasSuffix(text, "iB") }

// optional returns the value in a configoptional.Optional, the zero value if there is none, and
// any other value as it is.
func optional(v reflect.Value) reflect.Value {
	if !v.CanAddr() || !v.CanInterface() {
		return v
	}
	get := v.Addr().MethodByName("Get")
	if v.Kind() != reflect.Struct || !get.IsValid() || get.Type().NumIn() != 0 || get.Type().Out(0).Kind() != reflect.Pointer {
		return v
	}
	if value := get.Call(nil)[0]; !value.IsNil() {
		return value.Elem()
	}
	return reflect.New(get.Type().Out(0).Elem()).Elem()
}

// unitOf returns the unit in which the default of a key is a whole number.
func unitOf(byDefault time.Duration) string {
	for _, unit := range []struct {
		name string
		time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if byDefault != 0 && byDefault%unit.Duration == 0 {
			return unit.name
		}
	}
	return "s"
}
