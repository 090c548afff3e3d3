// SPDX-License-Identifier: Apache-2.0

// Package admissiontest has the messages that take the most memory for their size.
package admissiontest

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Shape is a form of messages that have one kind of entry many times, as small as it can be.
type Shape struct {
	Name  string
	path  []protowire.Number // to the message with the entries
	entry []byte
}

// New returns a message of about this size. If sampled, it has a sample, without which receivers drop it.
func (s Shape) New(size int, sampled bool) []byte {
	message := Nested(s.path, s.entry, size/len(s.entry))
	if sampled {
		message = append(message, Nested([]protowire.Number{1, 2, 2}, Field(2), 1)...)
	}
	return message
}

// Nested returns a message with a message in its field path[0], with a message in its field path[1], and so on. The innermost
// message has n times the same entry.
func Nested(path []protowire.Number, entry []byte, n int) []byte {
	b := bytes.Repeat(entry, n)
	for i := len(path) - 1; i >= 0; i-- {
		b = protowire.AppendBytes(protowire.AppendTag(nil, path[i], protowire.BytesType), b)
	}
	return b
}

// Field returns an encoded field.
func Field(number protowire.Number, value ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// Shapes has a shape for each list of a message.
var Shapes = []Shape{
	{"resources", nil, Field(1)},
	{"attributes of a resource", []protowire.Number{1, 1}, Field(1)},
	{"entities", []protowire.Number{1, 1}, Field(3)},
	{"keys of an entity", []protowire.Number{1, 1, 3}, Field(3)},
	{"scopes", []protowire.Number{1}, Field(2)},
	{"attributes of a scope", []protowire.Number{1, 2, 1}, Field(3)},
	{"profiles", []protowire.Number{1, 2}, Field(2)},
	{"attributes of a profile", []protowire.Number{1, 2, 2}, Field(11, 1)},
	{"samples", []protowire.Number{1, 2, 2}, Field(2)},
	{"values", []protowire.Number{1, 2, 2, 2}, Field(4, 1)},
	{"packed values", []protowire.Number{1, 2, 2, 2, 4}, []byte{1}},
	{"unpacked values", []protowire.Number{1, 2, 2, 2}, []byte{4 << 3, 1}},
	{"packed timestamps", []protowire.Number{1, 2, 2, 2, 5}, make([]byte, 8)},
	{"mappings", []protowire.Number{2}, Field(1)},
	{"locations", []protowire.Number{2}, Field(2)},
	{"lines", []protowire.Number{2, 2}, Field(3)},
	{"functions", []protowire.Number{2}, Field(3)},
	{"links", []protowire.Number{2}, Field(4)},
	{"strings", []protowire.Number{2}, Field(5)},
	{"short strings", []protowire.Number{2}, Field(5, 'a')},
	{"attributes", []protowire.Number{2}, Field(6)},
	{"attributes with lists", []protowire.Number{2}, Field(6, Field(2, Field(5)...)...)},
	{"attributes with numbers", []protowire.Number{2}, Field(6, Field(2, 3<<3, 1)...)},
	{"values of a list", []protowire.Number{2, 6, 2, 5}, Field(1)},
	{"attributes of an attribute", []protowire.Number{2, 6, 2, 6}, Field(1)},
	{"lists of a list", []protowire.Number{2, 6, 2, 5}, Field(1, Field(5)...)},
	{"stacks", []protowire.Number{2}, Field(7)},
	{"short stacks", []protowire.Number{2}, Field(7, Field(1, 1)...)},
	{"locations of a stack", []protowire.Number{2, 7, 1}, []byte{1}},
	{"fields of a later version", nil, Field(3)},
}

// A JSONShape is a form of texts that repeat an entry.
type JSONShape struct{ Name, Before, Entry, After string }

// New returns a text of about this size.
func (s JSONShape) New(size int) []byte {
	return []byte(s.Before + strings.Repeat(s.Entry, size/len(s.Entry)) + s.After)
}

// inProfiles returns a shape with entries of a list of profiles.
func inProfiles(name, entry, last string) JSONShape {
	return JSONShape{name, `{"resourceProfiles":[{"scopeProfiles":[{"profiles":[`, entry, last + `]}]}]}`}
}

// inAttributes returns a shape with entries of the table of attributes.
func inAttributes(name, entry string) JSONShape {
	return JSONShape{name, `{"dictionary":{"attributeTable":[`, entry, `null]}}`}
}

// depth is how many lists a deep text has within one another. Each takes three of the 10,000 levels that encoding/json allows.
const depth = 3_300

// JSON has texts that are no messages as the marshaler writes them. pdata reads parts of those with errors as well.
var JSON = []JSONShape{
	inProfiles("null", `null,`, `null`),
	inProfiles("null with space", "\n null ,", `null`),
	inProfiles("empty objects", `{},`, `{}`),
	inProfiles("digits for objects", `1,`, `1`),
	inProfiles("numbers for objects", `12,`, `12`),
	inProfiles("signs for objects", `-1,`, `1`),
	inProfiles("strings for objects", `"",`, `""`),
	inProfiles("short strings for objects", `"a",`, `""`),
	inProfiles("strings with commas for objects", `",",`, `""`),
	inProfiles("lists for objects", `[],`, `[]`),
	inProfiles("lists of digits for objects", `[1],`, `[]`),
	inProfiles("lists of strings for objects", `["a","b"],`, `[]`),
	inProfiles("words for objects", `true,`, `true`),
	inProfiles("nameless fields", `{"":[]},`, `{}`),
	inProfiles("nameless fields of strings", `{"":","},`, `{}`),
	inProfiles("nameless fields of digits", `{"":[1,1]},`, `{}`),
	inProfiles("fields of other types", `{"samples":1},`, `{}`),
	inProfiles("lists with one of another type", `{"samples":[12,{}]},`, `{}`),
	inProfiles("a field twice", `{"samples":[null],"samples":[null]},`, `{}`),
	inProfiles("unknown fields", `{"x":[[],{"y":null}]},`, `{}`),
	inProfiles("values in strings", `{"samples":[{"values":["1","2"],"timestampsUnixNano":["1"]}]},`, `{}`),
	{"entries within a string", `{"resourceProfiles":[{"scopeProfiles":[{"profiles":["`, `,}`, `"]}]}]}`},
	{"brackets within a string", `{"resourceProfiles":[{"scopeProfiles":[{"profiles":["`, `[`, `"]}]}]}`},
	{"null within a string", `{"resourceProfiles":[{"scopeProfiles":[{"profiles":["`, `,n   `, `"]}]}]}`},
	{"names with _", `{"resource_profiles":[{"scope_profiles":[{"profiles":[{"samples":[`, `null,`, `null]}]}]}]}`},
	{"scopes", `{"resourceProfiles":[{"scopeProfiles":[`, `null,`, `null]}]}`},
	{"resources", `{"resourceProfiles":[`, `null,`, `null]}`},
	{"a list for each scope", `{"resourceProfiles":[`, `{"scopeProfiles":[null]},`, `null]}`},
	{"attributes of a resource", `{"resourceProfiles":[{"resource":{"attributes":[`, `null,`, `null]}}]}`},
	{"entities", `{"resourceProfiles":[{"resource":{"entityRefs":[`, `null,`, `null]}}]}`},
	{"samples", `{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"samples":[`, `{"values":[1]},`, `null]}]}]}]}`},
	{"values", `{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"samples":[{"values":[`, `12,`, `1]}]}]}]}]}`},
	{"strings", `{"dictionary":{"stringTable":[`, `"",`, `""]}}`},
	{"null for strings", `{"dictionary":{"stringTable":[`, `null,`, `null]}}`},
	{"escapes", `{"dictionary":{"stringTable":["`, `\u00e9`, `"]}}`},
	{"lines", `{"dictionary":{"locationTable":[`, `{"lines":[null]},`, `null]}}`},
	inAttributes("attributes", `null,`),
	inAttributes("attributes with empty lists", `{"value":{"arrayValue":null}},`),
	inAttributes("attributes with empty maps", `{"value":{"kvlistValue":{}}},`),
	inAttributes("attributes with strings", `{"value":{"stringValue":"a"}},`),
	inAttributes("attributes with bytes", `{"value":{"bytesValue":"AA=="}},`),
	inAttributes("attributes with values again and again", `{"value":{"intValue":1,"arrayValue":null,"kvlistValue":null}},`),
	inAttributes("attributes of attributes", `{"value":{"kvlistValue":{"values":[null,{"value":{"arrayValue":{"values":[null]}}}]}}},`),
	{"bytes", `{"dictionary":{"attributeTable":[{"value":{"bytesValue":"`, `AAAA`, `"}}]}}`},
	inAttributes("deep lists", `{"value":`+strings.Repeat(`{"arrayValue":{"values":[`, depth)+`{}`+strings.Repeat(`]}}`, depth)+`},`),
	{"deep lists within a string", `{"resourceProfiles":[{"scopeProfiles":[{"profiles":["`, `,\"samples\":[{`, `"]}]}]}`},
}
