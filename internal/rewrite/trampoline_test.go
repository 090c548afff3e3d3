// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const (
	tramp     = slot          // announced with a page, on a page that others share
	tramp2    = slot + 0x1000 // the same
	trampProg = slot + 0x400  // a program on the first one's page
)

// trampolineSnapshot has two trampolines, and a program on the page of the first.
func trampolineSnapshot(t testing.TB, m *symtab.Landmarks) *timeline.Snapshot {
	t.Helper()
	h := timeline.NewHistory(remember)
	h.Load(timeline.NewFunction(timeline.OriginTrampoline, "bpf_trampoline_1", tramp, 0x1000, nowBoot-10_000*ms))
	h.Load(timeline.NewFunction(timeline.OriginTrampoline, "bpf_trampoline_2", tramp2, 0x1000, nowBoot-10_000*ms))
	loadAt(h, "bpf_prog_"+progTag, trampProg, 0x100, nowBoot-10_000*ms)
	h.SetCertain(timeline.Forever)
	return timeline.NewSnapshot(append(markedSnapshot(t, m).Tables(), h.Table())...)
}

// TestContract_3_5_Trampolines: on a page that others share, a frame is a trampoline's if
// its caller is at a function's patch site, and nobody's otherwise.
func TestContract_3_5_Trampolines(t *testing.T) {
	const c = text + 0x80
	sites := map[string][]uint64{"amd64": {5, 9}, "arm64": {8, 12}, "riscv64": nil}
	for arch, offsets := range sites {
		m := marks()
		m.Arch, m.SharedTrampolines = arch, true
		shared := trampolineSnapshot(t, m)
		alone := *m
		alone.SharedTrampolines = false
		own := trampolineSnapshot(t, &alone)
		isSite := func(offset uint64) bool { return len(offsets) > 0 && (offset == offsets[0] || offset == offsets[1]) }
		for name, send := range sent {
			if name != "absolute" && name != "eBPF profiler" {
				continue
			}
			for offset := range uint64(16) {
				want := ""
				if isSite(offset) {
					want = "bpf_trampoline_1"
				}
				caller := namesOf(t, shared, send, trampProg+8, tramp+0x40, c+offset)
				assert.Equal(t, "bpf_prog_"+progTag, caller[0])
				assert.Equal(t, want, caller[1], "%s, %s, caller at +%d", arch, name, offset)
				assert.Equal(t, want, namesOf(t, shared, send, tramp+0x40, c+offset)[0], "%s, %s, leaf at +%d", arch, name, offset)
				assert.Equal(t, want, namesOf(t, shared, send, tramp+0x40, ext4+0x100+offset)[0], "of a module's function")
				assert.Equal(t, "bpf_trampoline_1", namesOf(t, own, send, trampProg+8, tramp+0x40, c+offset)[1], "a page of its own")
			}
			assert.Equal(t, []string{""}, namesOf(t, shared, send, tramp+0x40), "without a caller")
			assert.Equal(t, []string{""}, namesOf(t, shared, send, tramp2-1), "behind the program on its page")
			assert.Equal(t, []string{"bpf_trampoline_1"}, namesOf(t, own, send, tramp+0x40))
		}
	}
}

// TestContract_3_5_TrampolinesCallers: whatever form the caller's address has, or what name.
func TestContract_3_5_TrampolinesCallers(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	s := trampolineSnapshot(t, m)
	at := Frame{Address: tramp2 + 0x40, Type: "kernel"}
	plain := &Mapping{File: "vmlinux", Limit: 1 << 40}
	user := Frame{Address: 0x1234, Type: "native"}
	for _, tt := range []struct {
		name string
		next Frame
		want bool
	}{
		{"relative", Frame{Address: 0x85, Type: "kernel", Mapping: plain}, true},
		{"relative, not at a patch site", Frame{Address: 0x86, Type: "kernel", Mapping: plain}, false},
		{"in looked-up form", Frame{Address: 0x84, Type: "kernel", Mapping: vmlinux()}, true},
		{"in looked-up form, one too far", Frame{Address: 0x85, Type: "kernel", Mapping: vmlinux()}, false},
		{"with a name", withName(Frame{Address: text + 0x85, Type: "kernel"}, "c"), true},
		{"with another name", withName(Frame{Address: text + 0x85, Type: "kernel"}, "x"), true},
		{"a module's, by build id", Frame{Address: 0x105, Type: "kernel", Mapping: &Mapping{File: "ext4", BuildID: ext4ID, Limit: 1 << 20}}, true},
		{"a module's, by name", Frame{Address: 0x105, Type: "kernel", Mapping: &Mapping{File: "ext4", Limit: 1 << 20}}, true},
		{"in padding", Frame{Address: text + 0x185, Type: "kernel"}, false},
		{"of a program", Frame{Address: trampProg + 5, Type: "kernel"}, true},
		{"of a program, not at its patch site", Frame{Address: trampProg + 6, Type: "kernel"}, false},
		{"of a trampoline", Frame{Address: tramp2 + 5, Type: "kernel"}, false},
		{"of a user", user, false},
		{"of a guest", Frame{Address: text + 0x85, Type: "kernel", Mapping: &Mapping{File: "[guest.kernel.kallsyms]"}}, false},
		{"of a guest, relative", Frame{Address: 0x85, Type: "kernel", Mapping: &Mapping{File: "[guest.kernel.kallsyms]", BuildID: kernelID}}, false},
		{"of another build", Frame{Address: text + 0x85, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: "ab12"}}, false},
		{"of a module, with the ids of the kernel", Frame{Address: ext4 + 0x105, Type: "kernel", Mapping: vmlinux()}, false},
	} {
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(user, at, tt.next, user)
		got, _ := runWith(t, rewrite.Options{}, m.Profiles, s)
		want := Frame{Address: tramp2 + 0x40, Type: "kernel"} // nobody's
		if tt.want {
			assert.Equal(t, "bpf_trampoline_2", nameIn(got[0].Stack[1]), tt.name)
			assert.Equal(t, uint64(0x3f), got[0].Stack[1].Address)
			continue
		}
		assert.Equal(t, want, got[0].Stack[1], tt.name)
	}
}

// TestContract_3_5_TrampolineWithAndWithout: a location that has evidence in one stack and
// none in another is split.
func TestContract_3_5_TrampolineWithAndWithout(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	at, user := Frame{Address: tramp2 + 0x40, Type: "kernel"}, Frame{Address: 0x1234, Type: "native"}
	msg := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(user, at, Frame{Address: text + 0x85, Type: "kernel"}).
		Sample(user, at, Frame{Address: text + 0x86, Type: "kernel"})
	got, counts := runWith(t, rewrite.Options{}, msg.Profiles, trampolineSnapshot(t, m))
	assert.Equal(t, [][]string{{"", "bpf_trampoline_2", "c"}, {"", "", "c"}}, stackNames(got))
	assert.Equal(t, 1, counts[rewrite.OutcomeResolved][timeline.OriginTrampoline])
	assert.Equal(t, 1, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel])
}

// TestContract_3_5_TrampolinesUnknownKernel: whether trampolines share pages, and what is a patch
// site, is not known without the core kernel's symbols.
func TestContract_3_5_TrampolinesUnknownKernel(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	bpf := timeline.NewSnapshot(trampolineSnapshot(t, m).Tables()[2])
	got := namesOf(t, bpf, sent["absolute"], trampProg+8, tramp+0x40, text+0x85)
	assert.Equal(t, []string{"bpf_prog_" + progTag, "", ""}, got)
}

// TestContract_3_5_TrampolinesPartial: where programs are there that are not known, one that a
// trampoline called may have been sampled before it had its own stack frame. Then the patch
// site follows it, too.
func TestContract_3_5_TrampolinesPartial(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	h := timeline.NewHistory(remember)
	h.Load(timeline.NewFunction(timeline.OriginTrampoline, "bpf_trampoline_1", tramp, 0x1000, nowBoot-10_000*ms))
	h.SetCertain(timeline.Forever)
	for partial, want := range map[bool]string{false: "bpf_trampoline_1", true: ""} {
		h.SetPartial(partial)
		s := timeline.NewSnapshot(append(markedSnapshot(t, m).Tables(), h.Table())...)
		for name, send := range sent {
			if name != "absolute" && name != "eBPF profiler" {
				continue
			}
			exact := namesOf(t, s, send, tramp+0x40, text+0x85)
			assert.Equal(t, want, exact[0], "%s, partial %v", name, partial)
			caller := namesOf(t, s, send, text+0x20, tramp+0x40, text+0x85)
			assert.Equal(t, "bpf_trampoline_1", caller[1], "%s, partial %v", name, partial)
		}
	}
}

// TestContract_2_3_UnknownKernel: without the core kernel's symbols, entry code is not known. A
// frame at a program's first byte may have been interrupted there, or be the return address of
// the last call of the one before it.
func TestContract_2_3_UnknownKernel(t *testing.T) {
	h := timeline.NewHistory(remember)
	loadAt(h, "bpf_prog_"+progTag+"_a", slot, 0x100, nowBoot-10_000*ms)
	loadAt(h, "bpf_prog_"+progTag+"_b", slot+0x100, 0x100, nowBoot-10_000*ms)
	h.SetCertain(timeline.Forever)
	const a, b = "bpf_prog_" + progTag + "_a", "bpf_prog_" + progTag + "_b"
	unknown := timeline.NewSnapshot(h.Table())
	known := timeline.NewSnapshot(append(testSnapshot(t).Tables(), h.Table())...)
	for _, tt := range []struct {
		ip             uint64
		unknown, known string
	}{
		{slot, a, a}, // nothing is before it
		{slot + 1, a, a}, {slot + 0xff, a, a}, {slot + 0x100, "", a}, {slot + 0x101, b, b}, {slot + 0x200, "", b},
	} {
		assert.Equal(t, tt.unknown, namesOf(t, unknown, sent["absolute"], text+0x20, tt.ip)[1], "%#x", tt.ip)
		assert.Equal(t, tt.known, namesOf(t, known, sent["absolute"], text+0x20, tt.ip)[1], "%#x", tt.ip)
	}
}

// TestContract_3_5_EmptyNames: code that was loaded without CAP_BPF owns its addresses, and
// has no name, mapping or label.
func TestContract_3_5_EmptyNames(t *testing.T) {
	h := timeline.NewHistory(remember)
	loadAt(h, "", slot, 0x100, nowBoot-10_000*ms)
	loadAt(h, "bpf_prog_"+progTag, slot+0x100, 0x100, nowBoot-10_000*ms)
	h.SetCertain(timeline.Forever)
	s := timeline.NewSnapshot(append(testSnapshot(t).Tables(), h.Table())...)
	for _, opts := range []rewrite.Options{{}, {Label: true}, {All: true}, {KeepAddresses: true}} {
		m := rewritetest.NewMessage().Profile(nil, "scope").
			Sample(Frame{Address: slot + 8, Mapping: &Mapping{File: "[bpf]"}}, Frame{Address: slot + 0x80}, Frame{Address: slot + 0x108})
		got, counts := runWith(t, opts, m.Profiles, s)
		assert.Equal(t, Frame{Address: slot + 8, Type: "kernel"}, got[0].Stack[0])
		assert.Equal(t, Frame{Address: slot + 0x80, Type: "kernel"}, got[0].Stack[1])
		assert.Equal(t, "bpf_prog_"+progTag, nameIn(got[0].Stack[2]))
		assert.Equal(t, 2, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel])
	}
}
