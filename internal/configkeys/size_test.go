// SPDX-License-Identifier: Apache-2.0

package configkeys

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1B": 1, "64MiB": 64 << 20, "1GiB": 1 << 30, "64 MB": 64_000_000, "1.5GiB": 3 << 29, "2TB": 2e12, "1kB": 1000, "1KiB": 1024,
	} {
		got, err := ParseSize(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "64", "64M", "0B", "-1B", "1e3B", "99999999999TB"} {
		_, err := ParseSize(text)
		require.Error(t, err, text)
	}
}
