// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

func TestContract_2_3_Callers(t *testing.T) {
	for _, tt := range []struct {
		name         string
		offset       uint64
		leaf, caller string
		looked       uint64 // for the caller
	}{
		{"inside", offB + 5, "b", "b", offB + 4},
		{"first byte, after another function", offC, "c", "b", offC - 1},
		{"second byte", offC + 1, "c", "c", offC},
		{"first byte, after padding", offB, "b", "b", offB},
		{"second byte, after padding", offB + 1, "b", "b", offB},
		{"one past the end, padding follows", 0x40, "", "a", 0x3f},
		{"two past the end", 0x41, "", "", 0x40},
		{"last byte", 0x3f, "a", "a", 0x3e},
		{"first of the text", 0, "", "", text},
		{"the end of the text", textSize, "", "last", textSize - 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := Frame{Address: text + tt.offset, Type: "kernel"}
			got, _ := leaf(t, rewrite.Options{}, in)
			assert.Equal(t, tt.leaf, nameIn(got), "leaf")
			got = caller(t, rewrite.Options{}, in)
			assert.Equal(t, tt.caller, nameIn(got), "caller")
			assert.Equal(t, tt.looked, got.Address, "that was looked up")
			assert.Equal(t, tt.looked != text, got.Mapping != nil)
		})
	}
}

// TestContract_2_3_BeforeAModule: an address relative to a module says nothing about the bytes before the
// module: newer kernels put modules side by side.
func TestContract_2_3_BeforeAModule(t *testing.T) {
	mp := &Mapping{File: "[ext4]", BuildID: ext4ID, Start: 1, Limit: ext4Size}
	for address, want := range map[uint64]string{0: "", 1: "ext4_read"} {
		assert.Equal(t, want, nameIn(caller(t, rewrite.Options{}, Frame{Address: address, Type: "kernel", Mapping: mp})), address)
	}
}

func TestContract_2_2_EBPFProfiler(t *testing.T) {
	for _, scope := range []string{"go.opentelemetry.io/ebpf-profiler", "go.opentelemetry.io/ebpf-profiler/collector"} {
		m := rewritetest.NewMessage().Profile(nil, scope).
			Sample(Frame{Address: offB - 1, Type: "kernel", Mapping: vmlinux()}). // interrupted at the first byte of b
			Sample(Frame{Address: offC - 1, Type: "kernel", Mapping: vmlinux()}). // of c
			Sample(Frame{Address: 0x42, Type: "native"}, Frame{Address: offC - 1, Type: "kernel", Mapping: vmlinux()})
		samples, _ := run(t, rewrite.Options{}, m.Profiles)
		assert.Equal(t, "b", nameIn(samples[0].Stack[0]))
		assert.Equal(t, "c", nameIn(samples[1].Stack[0]))
		assert.Equal(t, "b", nameIn(samples[2].Stack[1]), "as a caller")
		assert.Equal(t, uint64(offB-1), samples[0].Stack[0].Address)
	}
}

func TestContract_2_5_BPFFramesOfEBPFProfiler(t *testing.T) {
	f := withName(Frame{Address: 0x24, Type: "kernel"}, "bpf_prog_6deef7357e7b4530_sd_fw_ingress")
	for _, opts := range []rewrite.Options{{}, {All: true}} {
		m := rewritetest.NewMessage().Profile(nil, "go.opentelemetry.io/ebpf-profiler").Sample(f)
		samples, _ := run(t, opts, m.Profiles)
		assert.Equal(t, f, samples[0].Stack[0])
	}
}
