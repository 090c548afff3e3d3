// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// A shape bounds the memory that a field of an OTLP message takes when it is decoded.
type shape struct {
	entry     int64    // bytes for each value of the field
	perByte   int64    // bytes for each byte of the value, without those of fields
	perNumber int64    // bytes for each number of a packed list
	fields    []*shape // by number; nil unless the value is a message
}

// An entry is one of pdata's structs on 64-bit machines. Its size is rounded up as the allocator does. When append moves a slice to an
// array that is a quarter larger, both arrays together have 2.25 places for each entry: 18 bytes for a pointer.
const place = 18

var (
	text    = &shape{entry: 36, perByte: 1} // a string, bytes or an id
	indices = &shape{entry: 8, perNumber: 9}
	values  = &shape{entry: 8, perNumber: 18}
	times   = &shape{entry: 8, perByte: 3}
	noField = []*shape{} // a message without length-delimited fields

	keyValue  = &shape{entry: 90} // lies in its slice, as the next does
	anyValue  = &shape{entry: 36}
	array     = &shape{entry: 40, fields: []*shape{1: anyValue}}
	list      = &shape{entry: 40, fields: []*shape{1: keyValue}}
	entityRef = &shape{entry: 80 + place, fields: []*shape{1: text, 2: text, 3: text, 4: text}}
	resource  = &shape{fields: []*shape{1: keyValue, 3: entityRef}}
	scope     = &shape{fields: []*shape{1: text, 2: text, 3: keyValue}}

	valueType        = &shape{fields: noField}
	sample           = &shape{entry: 80 + place, fields: []*shape{2: indices, 4: values, 5: times}}
	profile          = &shape{entry: 160 + place, fields: []*shape{1: valueType, 2: sample, 5: valueType, 7: text, 9: text, 10: text, 11: indices}}
	scopeProfiles    = &shape{entry: 112 + place, fields: []*shape{1: scope, 2: profile, 3: text}}
	resourceProfiles = &shape{entry: 96 + place, fields: []*shape{1: resource, 2: scopeProfiles, 3: text}}

	mapping         = &shape{entry: 64 + place, fields: []*shape{5: indices}}
	line            = &shape{entry: 24 + place, fields: noField}
	location        = &shape{entry: 64 + place, fields: []*shape{3: line, 4: indices}}
	function        = &shape{entry: 24 + place, fields: noField}
	link            = &shape{entry: 24 + place, fields: []*shape{1: text, 2: text}}
	keyValueAndUnit = &shape{entry: 24 + place, fields: []*shape{2: anyValue}}
	stack           = &shape{entry: 24 + place, fields: []*shape{1: indices}}
	dictionary      = &shape{fields: []*shape{1: mapping, 2: location, 3: function, 4: link, 5: text, 6: keyValueAndUnit, 7: stack}}

	request = &shape{fields: []*shape{1: resourceProfiles, 2: dictionary}}
)

func init() { // these contain each other
	keyValue.fields = []*shape{1: text, 2: anyValue}
	anyValue.fields = []*shape{1: text, 5: array, 6: list, 7: text}
}

const (
	worst    = 101 // bytes for each byte of a message of unknown entries
	copies   = 4   // of an encoded message: received, decompressed, joined, or twice in a slice that grows
	maxDepth = 100 // pdata refuses deeper messages
)

var errMalformed = errors.New("the message is malformed")

// cost returns an upper bound of the memory that a request to export profiles takes while it is decoded, and afterwards.
func cost(message []byte) (int64, error) {
	n, err := request.cost(message, 0)
	return n + copies*int64(len(message)), err
}

// cost returns the bytes that the fields of a message of this shape take.
func (s *shape) cost(message []byte, depth int) (total int64, err error) {
	if depth > maxDepth {
		return 0, errMalformed
	}
	for len(message) > 0 {
		field, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, errMalformed
		}
		message = message[n:]
		if typ != protowire.BytesType {
			size := protowire.ConsumeFieldValue(field, typ, message)
			if size < 0 {
				return 0, errMalformed
			}
			message = message[size:]
			total += place // in a list that is not packed, or 16 bytes for the value of an attribute
			continue
		}
		value, size := protowire.ConsumeBytes(message)
		if size < 0 {
			return 0, errMalformed
		}
		message = message[size:]
		if int(field) >= len(s.fields) || s.fields[field] == nil {
			total += worst * int64(n+size)
			continue
		}
		child := s.fields[field]
		total += child.entry
		if child.fields == nil {
			total += child.perByte*int64(len(value)) + child.perNumber*countNumbers(value)
			continue
		}
		inner, err := child.cost(value, depth+1)
		if err != nil {
			return 0, err
		}
		total += inner
	}
	return total, nil
}

// countNumbers returns how many varints end in a packed list.
func countNumbers(packed []byte) (n int64) {
	for _, b := range packed {
		n += int64(^b >> 7)
	}
	return n
}

const (
	entryJSON  = 160 + place // a profile; no other entry is larger
	scalarJSON = 36          // a string, without its bytes; no number is larger
)

// costJSON is cost for a message in JSON. A valid one is no deeper than encoding/json allows.
//
// To each list, pdata adds an entry as soon as it has read [ or a comma, whatever comes next: null takes as much as an object.
// An entry of the wrong type is an error, but pdata goes on until it finds nothing that it expects. So what it takes for
// an entry can be anything, even a comma within a string. But if something that begins like a number or a string is taken for
// an object, pdata skips one byte, and the list ends there, unless [ or a comma follows. This happens at most once for each [.
func costJSON(message []byte) (int64, error) {
	if !json.Valid(message) {
		return 0, errMalformed
	}
	total := copies * int64(len(message))
	for i, b := range message {
		if b == '[' {
			total += entryJSON - scalarJSON
		}
		if b == '[' || b == ',' {
			total += entryCost(message[i+1:])
		}
	}
	return total, nil
}

// entryCost returns the bytes for the entry with which text begins. A number or a string takes less, unless more entries would
// follow if it were taken for an object.
func entryCost(text []byte) int64 {
	first, text := nextToken(text)
	if first != '"' && first != '-' && (first < '0' || first > '9') {
		return entryJSON
	}
	if next, _ := nextToken(text); next == ',' || next == '[' {
		return entryJSON
	}
	return scalarJSON
}

// nextToken returns the first byte that is not white space, and what follows. It returns 0 at the end.
func nextToken(text []byte) (first byte, rest []byte) {
	for i, b := range text {
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, text[i+1:]
		}
	}
	return 0, nil
}
