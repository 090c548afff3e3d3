// SPDX-License-Identifier: Apache-2.0

package symbolize

import "strings"

// maxDigits is the length of the longest number that counts as a placeholder. No producer writes longer ones,
// and many functions of a hostile message can share one long name.
const maxDigits = 64

// IsPlaceholder reports whether a name stands for a missing name (see contract 1.2).
func IsPlaceholder(name string) bool {
	if name == "" {
		return true
	}
	switch name[0] {
	case '[':
		switch name {
		case "[unknown]", "[symbolication_failed]", "[kernel.kallsyms]", "[[kernel.kallsyms]]":
			return true
		}
		return false
	case 'U':
		return name == "UNKNOWN"
	case '0':
		if digits, ok := strings.CutPrefix(name, "0x"); ok {
			return len(digits) <= maxDigits && isHex(digits)
		}
	}
	return len(name) == 16 && isHex(name)
}

func isHex(digits string) bool {
	for i := range len(digits) {
		switch c := digits[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return digits != ""
}
