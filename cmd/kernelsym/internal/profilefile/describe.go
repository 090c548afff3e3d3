// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode"
	"unicode/utf8"
)

// headSize is the number of bytes of a file that describe needs.
const headSize = 512

// magics are the beginnings of files that users pass by mistake.
var magics = map[string]string{
	"PERFILE2":         "a file of perf record",
	"\x7fELF":          "a program",
	"PK\x03\x04":       "a zip archive",
	"BZh":              "compressed with bzip2",
	"\xfd7zXZ\x00":     "compressed with xz",
	"\x04\x22\x4d\x18": "compressed with lz4",
}

// describe describes the file that begins with head. The result is empty if the kind of file is
// uncertain.
func describe(head []byte) string {
	for magic, what := range magics {
		if bytes.HasPrefix(head, []byte(magic)) {
			return what
		}
	}
	if isText(head) {
		return "text"
	}
	field, message := firstField(head)
	switch {
	// pprof's profile.proto begins with a ValueType, and all fields of that are numbers.
	case field == 1 && bytes.HasPrefix(message, []byte{1 << 3}):
		return "a pprof profile (go tool pprof shows it)"
	// In ProfilesData, each field of the first message is a message.
	case (field == 1 || field == 2) && len(message) > 0 && message[0]&7 == 2:
		return "a protobuf message without a length before it"
	}
	return ""
}

// isText reports whether b is UTF-8 without control characters. The last character may be cut off.
func isText(b []byte) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 && utf8.FullRune(b) {
			return false
		}
		if unicode.IsControl(r) && !unicode.IsSpace(r) && r != '\x1b' {
			return false
		}
		b = b[size:]
	}
	return true
}

// firstField returns the number and the content of the first field of a protobuf message, if the
// field has a length.
func firstField(b []byte) (number uint64, content []byte) {
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag&7 != 2 {
		return 0, nil
	}
	_, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return 0, nil
	}
	return tag >> 3, b[n+m:]
}

// checkKeys returns an error for JSON that has keys, but none of a profile.
func checkKeys(message []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(message, &keys); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, known := range []string{"resourceProfiles", "resource_profiles", "dictionary"} {
		if keys[known] != nil {
			return nil
		}
	}
	if len(keys) == 0 {
		return nil
	}
	first := slices.Sorted(maps.Keys(keys))[0]
	return fmt.Errorf("this is JSON without profiles, with the key %q; %w", first, ErrFormat)
}
