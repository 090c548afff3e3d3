// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTypeName(t *testing.T) {
	for n, want := range map[uint32]string{0: "unspec", 6: "xdp", 32: "netfilter", 33: "", 1 << 31: ""} {
		assert.Equal(t, want, (&Program{Type: n}).TypeName())
	}
}
