// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestListPrograms compares the listed fields of a program with the kernel's description when it
// was loaded.
func TestListPrograms(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.NeedAddresses(t)
	prog := kerneltest.LoadBPF(t, kerneltest.SmallProgram("listed", 1, 1))
	info, err := prog.Info()
	require.NoError(t, err)
	id, ok := info.ID()
	require.True(t, ok)
	code := kerneltest.CodeOf(t, prog)[0]

	out, _, err := execute(t, "", "list", "--kind", "bpf", "bpf_prog_*_listed", "-o", "json")
	require.NoError(t, err)
	found := false
	for line := range strings.Lines(out) {
		var got struct {
			Kind, Address, Name, Source string
			Bytes                       uint64
			Program                     uint32  `json:"program_id"`
			Type                        string  `json:"program_type"`
			Age                         float64 `json:"age_s"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got))
		assert.Equal(t, "bpf", got.Kind)
		assert.Equal(t, "bpf", got.Source)
		if got.Program != uint32(id) {
			continue
		}
		found = true
		assert.Equal(t, "0x"+printable.Address(code.Start).String(), got.Address)
		assert.Equal(t, code.End-code.Start, got.Bytes)
		assert.NotEmpty(t, got.Type)
		assert.Greater(t, got.Age, 0.0)
		assert.Less(t, got.Age, 600.0)
	}
	assert.True(t, found, out)
}
