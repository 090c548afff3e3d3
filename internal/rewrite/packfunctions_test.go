// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// TestPackFunctionsBytes: what names and files take counts as memory that is kept.
func TestPackFunctionsBytes(t *testing.T) {
	var f packFunctions
	image := &packedImage{number: 1}
	name, file := strings.Repeat("n", 1<<16), strings.Repeat("f", 1<<16)
	at := f.inlined(image, &pack.Frame{ID: 1, Function: name, File: file})
	assert.Equal(t, name, f.known[at].name.Name)
	assert.Greater(t, f.bytes(), 2<<16)
	f.inlined(image, &pack.Frame{ID: 1, Function: name, File: file})
	assert.Less(t, f.bytes(), 4<<16, "once")
	f.reset()
	assert.Less(t, f.bytes(), 1<<16)
}
