// SPDX-License-Identifier: Apache-2.0

// Package admissiontest has the messages that take the most memory for their size.
package admissiontest

import (
	"bytes"

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
