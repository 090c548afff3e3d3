// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

func TestScrub(t *testing.T) {
	s := newScrubber([]string{"db1", "node-7", "node-7.example.org"})
	for in, want := range map[string]string{
		"at ffffffff81000000, 0xFFFF888000000000":  "at [address], [address]",
		"RIP: 0010:ffffffffa0001234+0x1c":          "RIP: 0010:[address]+0x1c",
		"user 00007f0000001000 0x7fffffffffffffff": "user 00007f0000001000 0x7fffffffffffffff",
		"1767323045123456789 ns":                   "1767323045123456789 ns",
		"e4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc1": "e4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc1",
		"%20ffffffff81445680 pcffffffff81445680":   "%20[address] pc[address]",
		"NODE-7.example.org, node-7:4317, node-70": "[host], [host]:4317, [host]0",
		"db1 db12 db1.":                            "[host] db12 [host].",
	} {
		assert.Equal(t, want, s.text(in))
	}
	assert.Equal(t, "node-7", newScrubber(nil).text("node-7"), "without names, none is removed")
}

// TestNoTextIsForgotten verifies, for each text that a report can have, whether it is scrubbed.
func TestNoTextIsForgotten(t *testing.T) {
	const hidden = "node-7 at ffffffff81000000"
	var r Report
	fill(reflect.ValueOf(&r).Elem(), hidden)
	var out strings.Builder
	require.NoError(t, r.writeJSON(printable.New(&out, false), newScrubber([]string{"node-7"})))
	var scrubbed Report
	require.NoError(t, json.Unmarshal([]byte(out.String()), &scrubbed))
	left := make(map[string]bool)
	texts(reflect.ValueOf(scrubbed), "", func(where, text string) {
		if text != "[host] at [address]" {
			assert.Equal(t, hidden, text, where)
			left[where] = true
		}
	})
	assert.Equal(t, []string{".Details.Builds.BuildID", ".Details.Builds.Name", ".Details.Sources.Name", ".Findings.Check", ".Findings.Level", ".Result"},
		slices.Sorted(maps.Keys(left)), "these are fixed, or names of code")
	assert.Contains(t, out.String(), `"remedy"`)
	assert.Equal(t, hidden, r.Findings[0].Found, "the report itself is as it was")
}

// fill sets each text in v, and gives each list and map an element.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), element)
	}
}

// texts calls f with each text in v.
func texts(v reflect.Value, where string, f func(where, text string)) {
	switch v.Kind() {
	case reflect.String:
		f(where, v.String())
	case reflect.Struct:
		for i := range v.NumField() {
			texts(v.Field(i), where+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			texts(v.Index(i), where, f)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			texts(v.MapIndex(key), where, f)
		}
	}
}
