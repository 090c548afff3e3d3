// Package configkeys makes errors about keys of a configuration say which keys
// there are.
package configkeys

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Explain returns an error of unmarshalling config, a pointer to a struct, with
// the keys that it accepts. A nil error stays nil.
func Explain(err error, config any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\naccepted keys: %s", err, strings.Join(keys("", reflect.TypeOf(config).Elem()), ", "))
}

// keys returns the keys of a struct, in the form "a::b" for nested ones and with
// the kind of value they take.
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
		case field.Kind() == reflect.Struct:
			all = append(all, keys(key+"::", field)...)
		default:
			all = append(all, key+" ("+field.Kind().String()+")")
		}
	}
	slices.Sort(all)
	return all
}
