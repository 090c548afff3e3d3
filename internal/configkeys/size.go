// SPDX-License-Identifier: Apache-2.0

package configkeys

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/dustin/go-humanize"
)

// size matches a number with a unit. Without a unit, a number meant as megabytes would be read
// as bytes.
var size = regexp.MustCompile(`^[0-9]+(\.[0-9]+)? ?([kKMGT]i?)?B$`)

// ParseSize returns the number of bytes in a size with a unit. The size must be more than 0 and
// less than 1<<62 bytes.
func ParseSize(s string) (int64, error) {
	if size.MatchString(s) {
		if n, err := humanize.ParseBytes(s); err == nil && 0 < n && n < 1<<62 {
			return int64(n), nil
		}
	}
	return 0, errors.New("it must be a size of more than 0 with a unit, such as 64MiB or 1GB")
}

// ParseSizeBetween is ParseSize for sizes from least to most bytes.
func ParseSizeBetween(s string, least, most int64) (int64, error) {
	n, err := ParseSize(s)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("it must be a size with a unit from %s to %s",
			humanize.IBytes(uint64(least)), humanize.IBytes(uint64(most)))
	}
	return n, nil
}
