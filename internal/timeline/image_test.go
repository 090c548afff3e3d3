// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEndKnown verifies which images have a known end. A trampoline is announced with a page, but
// uses only its beginning; a dispatcher has a page to itself. A module's end may have been
// announced too high.
func TestEndKnown(t *testing.T) {
	for origin, names := range map[Origin][]string{
		OriginBPF: {"bpf_prog_0123456789abcdef_x", ""}, OriginOOL: {"ftrace_trampoline"}, OriginTrampoline: {"bpf_dispatcher_xdp"},
	} {
		for _, name := range names {
			m := NewFunction(origin, name, 0x1000, 64, 0)
			assert.True(t, m.EndKnown, name)
			assert.False(t, m.Yields(), name)
		}
	}
	assert.True(t, NewFunction(OriginTrampoline, "bpf_trampoline_1", 0x1000, 4096, 0).Yields())
	m := module(t, "m", 0x1000, 0x2000, Always)
	assert.False(t, m.EndKnown)
	assert.False(t, m.Yields())
	assert.True(t, newCore(t, 64).EndKnown)
}

func TestFunctionTag(t *testing.T) {
	for name, want := range map[string]string{
		"bpf_prog_0123456789abcdef":           "0123456789abcdef",
		"bpf_prog_0123456789abcdef_kprobe_do": "0123456789abcdef",
		"bpf_prog_0123":                       "",
		"bpf_prog_0123456789abcdefg":          "",
		"bpf_trampoline_6442482157":           "",
	} {
		assert.Equal(t, want, bpf(name, 1, 1, 0).Tag(), name)
	}
}
