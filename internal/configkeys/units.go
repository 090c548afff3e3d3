// SPDX-License-Identifier: Apache-2.0

package configkeys

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"
)

// checkWritten returns an error for each value that would not be read as it is written, also in
// sections of other packages. The struct holds the defaults.
func checkWritten(prefix string, conf *confmap.Conf, config reflect.Value) (errs []error) {
	for i := range config.NumField() {
		key, options, tagged := strings.Cut(config.Type().Field(i).Tag.Get("mapstructure"), ",")
		key = prefix + key
		switch field := optional(config.Field(i)); {
		case field.Kind() != reflect.Struct:
			if err := checkValue(conf.Get(key), field); err != nil && conf.IsSet(key) {
				errs = append(errs, fmt.Errorf("%s %w", key, err))
			}
		case tagged && strings.Contains(options, "squash"):
			errs = append(errs, checkWritten(prefix, conf, field)...)
		case key == prefix, isText(field):
		case isScalar(conf.Get(key)):
			errs = append(errs, fmt.Errorf("%s is %v: it must be a section with the keys %s",
				key, conf.Get(key), strings.Join(keys("", field.Type()), ", ")))
		default:
			errs = append(errs, checkWritten(key+"::", conf, field)...)
		}
	}
	return errs
}

// isText reports whether a struct is read from text, such as the id of a component.
func isText(v reflect.Value) bool {
	return v.CanAddr() && v.Addr().Type().Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// isScalar reports whether a value cannot be a section. An empty section can be nil.
func isScalar(value any) bool { return value != nil && reflect.TypeOf(value).Kind() != reflect.Map }

// checkValue returns an error for a duration without a unit, which would be read as nanoseconds
// (0 needs no unit); for a size without a unit (a size is a string whose default has a unit);
// for an empty value, which would be read as false, 0 or an empty string although the default
// differs; and for a fraction, which would be truncated to an integer.
func checkValue(value any, byDefault reflect.Value) error {
	isDuration := byDefault.Type() == reflect.TypeFor[time.Duration]()
	text := fmt.Sprint(value)
	n, err := strconv.ParseFloat(text, 64)
	_, isInt := value.(int)
	switch {
	case value == nil && !byDefault.IsZero():
		return fmt.Errorf("is empty: give it a value, or leave the key out for its default, %v", byDefault.Interface())
	case byDefault.Kind() == reflect.String && isSize(byDefault.String()) && isInt:
		return fmt.Errorf("is %s: it needs a unit, such as %s", text, byDefault.String())
	case isDuration && err == nil && n != 0:
		return fmt.Errorf("is %s: it needs a unit, such as %s%s", text, text, unitOf(time.Duration(byDefault.Int())))
	case byDefault.CanInt() && !isDuration && err == nil && n != math.Trunc(n):
		return fmt.Errorf("is %s: it must be an integer", text)
	}
	return nil
}

// isSize reports whether a default is a size of memory or disk space.
func isSize(text string) bool { return strings.HasSuffix(text, "iB") }

// optional returns the value in a configoptional.Optional, or the zero value if it is empty. It
// returns any other value as it is.
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
