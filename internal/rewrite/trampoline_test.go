// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const (
	tramp     = slot          // announced with a page, on a page that others share
	tramp2    = slot + 0x1000 // the same
	tramp3    = slot + 0x2000 // the same
	trampProg = slot + 0x400  // a program on the first one's page
)

// The keys of functions that have trampolines: type 7 of the core kernel, type 9001 of a module, type 3 of program 5.
const (
	keyOfC     timeline.TrampolineKey = 1<<32 | 1<<31 | 7
	keyOfWrite timeline.TrampolineKey = 4<<32 | 1<<31 | 9001
	keyOfProg  timeline.TrampolineKey = 5<<32 | 3
)

func trampolineName(key timeline.TrampolineKey) string { return fmt.Sprintf("bpf_trampoline_%d", key) }

// loadTrampolines loads the trampolines of c, ext4_write and a program, and the program, on the page of the first.
func loadTrampolines(h *timeline.Builder) {
	for start, key := range map[uint64]timeline.TrampolineKey{tramp: keyOfC, tramp2: keyOfWrite, tramp3: keyOfProg} {
		h.Load(timeline.NewFunction(timeline.OriginTrampoline, trampolineName(key), start, 0x1000, nowBoot-10_000*ms))
	}
	h.SetTraced(map[timeline.TrampolineKey]timeline.TracedFunction{
		keyOfC: {Image: timeline.KernelName, Name: "c"}, keyOfWrite: {Image: "ext4", Name: "ext4_write"},
	})
	prog := loadAt(h, "bpf_prog_"+progTag, trampProg, 0x100, nowBoot-10_000*ms)
	h.Replace(prog, prog.WithProgram(&timeline.Program{ID: 5}, nil).WithType(3))
	h.SetCertain(timeline.Forever)
}

// trampolineSnapshot has three trampolines, and a program on the page of the first.
func trampolineSnapshot(t testing.TB, m *symtab.Landmarks) *timeline.Snapshot {
	t.Helper()
	h := timeline.NewBuilder(remember)
	loadTrampolines(h)
	return timeline.NewSnapshot(append(markedSnapshot(t, m).Tables(), h.Table())...)
}

// TestContract_3_5_Trampolines verifies that, on a page that others share, a frame is a trampoline's only if its caller is
// at the patch site of the function that the trampoline belongs to. At the patch site of another function, it is in that
// function's trampoline, which may not be known.
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
		for name, send := range sent {
			if name != "absolute" && name != "eBPF profiler" {
				continue
			}
			for offset := range uint64(16) {
				for function, key := range map[uint64]timeline.TrampolineKey{c: keyOfC, ext4 + 0x100: keyOfWrite, trampProg: keyOfProg} {
					for at, of := range map[uint64]timeline.TrampolineKey{tramp: keyOfC, tramp2: keyOfWrite, tramp3: keyOfProg} {
						want := ""
						if slices.Contains(offsets, offset) && of == key {
							want = trampolineName(of)
						}
						caller := namesOf(t, shared, send, trampProg+8, at+0x40, function+offset)
						assert.Equal(t, "bpf_prog_"+progTag, caller[0])
						assert.Equal(t, want, caller[1], "%s, %s, %#x, caller at %#x+%d", arch, name, at, function, offset)
						leaf := namesOf(t, shared, send, at+0x40, function+offset)
						assert.Equal(t, want, leaf[0], "%s, %s, %#x, leaf at %#x+%d", arch, name, at, function, offset)
						assert.Equal(t, trampolineName(of), namesOf(t, own, send, trampProg+8, at+0x40, function+offset)[1], "a page of its own")
					}
				}
			}
			assert.Equal(t, []string{""}, namesOf(t, shared, send, tramp+0x40), "without a caller")
			assert.Equal(t, []string{""}, namesOf(t, shared, send, tramp2-1), "behind the program on its page")
			assert.Equal(t, []string{trampolineName(keyOfC)}, namesOf(t, own, send, tramp+0x40))
		}
	}
}

// TestContract_3_5_TrampolinesCallers verifies that the form of the caller's address does not matter, nor its name.
func TestContract_3_5_TrampolinesCallers(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	s := trampolineSnapshot(t, m)
	plain := &Mapping{File: "vmlinux", Limit: 1 << 40}
	user := Frame{Address: 0x1234, Type: "native"}
	guest, guestOfBuild := &Mapping{File: "[guest.kernel.kallsyms]"}, &Mapping{File: "[guest.kernel.kallsyms]", BuildID: kernelID}
	for _, tt := range []struct {
		name string
		at   uint64 // in a trampoline
		next Frame
		want bool
	}{
		{"relative", tramp, Frame{Address: 0x85, Type: "kernel", Mapping: plain}, true},
		{"relative, not at a patch site", tramp, Frame{Address: 0x86, Type: "kernel", Mapping: plain}, false},
		{"in looked-up form", tramp, Frame{Address: 0x84, Type: "kernel", Mapping: vmlinux()}, true},
		{"in looked-up form, one too far", tramp, Frame{Address: 0x85, Type: "kernel", Mapping: vmlinux()}, false},
		{"with a name", tramp, withName(Frame{Address: text + 0x85, Type: "kernel"}, "c"), true},
		{"with another name", tramp, withName(Frame{Address: text + 0x85, Type: "kernel"}, "x"), true},
		{"a module's, by build id", tramp2, Frame{Address: 0x105, Type: "kernel", Mapping: &Mapping{File: "ext4", BuildID: ext4ID, Limit: 1 << 20}}, true},
		{"a module's, by name", tramp2, Frame{Address: 0x105, Type: "kernel", Mapping: &Mapping{File: "ext4", Limit: 1 << 20}}, true},
		{"in padding", tramp, Frame{Address: text + 0x185, Type: "kernel"}, false},
		{"of a program", tramp3, Frame{Address: trampProg + 5, Type: "kernel"}, true},
		{"of a program, not at its patch site", tramp3, Frame{Address: trampProg + 6, Type: "kernel"}, false},
		{"of a trampoline", tramp, Frame{Address: tramp2 + 5, Type: "kernel"}, false},
		{"of a user", tramp, user, false},
		{"of a guest", tramp, Frame{Address: text + 0x85, Type: "kernel", Mapping: guest}, false},
		{"of a guest, relative", tramp, Frame{Address: 0x85, Type: "kernel", Mapping: guestOfBuild}, false},
		{"of another build", tramp, Frame{Address: text + 0x85, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: "ab12"}}, false},
		{"of a module, with the ids of the kernel", tramp2, Frame{Address: ext4 + 0x105, Type: "kernel", Mapping: vmlinux()}, false},
	} {
		at := Frame{Address: tt.at + 0x40, Type: "kernel"}
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(user, at, tt.next, user)
		got, _ := runWith(t, rewrite.Options{}, m.Profiles, s)
		if tt.want {
			of := map[uint64]timeline.TrampolineKey{tramp: keyOfC, tramp2: keyOfWrite, tramp3: keyOfProg}[tt.at]
			assert.Equal(t, trampolineName(of), nameIn(got[0].Stack[1]), tt.name)
			assert.Zero(t, got[0].Stack[1].Address, "which of the trampolines with this name it is, and so the offset, is not certain")
			continue
		}
		assert.Equal(t, at, got[0].Stack[1], tt.name)
	}
}

// TestContract_3_5_TrampolinesOfFunctionsThatAreNotKnown verifies that a trampoline without a known function has no name,
// whatever its caller is.
func TestContract_3_5_TrampolinesOfFunctionsThatAreNotKnown(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	for _, traced := range []map[timeline.TrampolineKey]timeline.TracedFunction{
		nil, {keyOfC: {}}, {keyOfC: {Image: timeline.KernelName, Name: "d"}}, {keyOfC: {Image: "ext4", Name: "c"}},
	} {
		h := timeline.NewBuilder(remember)
		loadTrampolines(h)
		h.SetTraced(traced)
		s := timeline.NewSnapshot(append(markedSnapshot(t, m).Tables(), h.Table())...)
		assert.Empty(t, namesOf(t, s, sent["absolute"], text+0x20, tramp+0x40, text+0x85)[1], "%v", traced)
	}
}

// TestContract_3_5_TrampolinesAddresses verifies that the address of a trampoline is written without an
// offset, which is not certain.
func TestContract_3_5_TrampolinesAddresses(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	shared := trampolineSnapshot(t, m)
	for _, tt := range []struct {
		opts    rewrite.Options
		address uint64
		mapping *Mapping
	}{
		{rewrite.Options{}, 0, &Mapping{File: "[bpf]", FileID: buildid.ContentFileID(trampolineName(keyOfC))}},
		{rewrite.Options{Addresses: rewrite.KeepAddresses}, tramp + 0x40, &Mapping{File: "[bpf]"}},
	} {
		msg := rewritetest.NewMessage().Profile(nil, "scope").
			Sample(Frame{Address: text + 0x20, Type: "kernel"}, Frame{Address: tramp + 0x40, Type: "kernel"}, Frame{Address: text + 0x85, Type: "kernel"})
		got, _ := runWith(t, tt.opts, msg.Profiles, shared)
		assert.Equal(t, tt.address, got[0].Stack[1].Address)
		assert.Equal(t, tt.mapping, got[0].Stack[1].Mapping)
	}
}

// TestContract_3_5_TrampolineWithAndWithout: a location with evidence in one stack and none in another is
// split.
func TestContract_3_5_TrampolineWithAndWithout(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	at, user := Frame{Address: tramp + 0x40, Type: "kernel"}, Frame{Address: 0x1234, Type: "native"}
	msg := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(user, at, Frame{Address: text + 0x85, Type: "kernel"}).
		Sample(user, at, Frame{Address: text + 0x86, Type: "kernel"})
	got, counts := runWith(t, rewrite.Options{}, msg.Profiles, trampolineSnapshot(t, m))
	assert.Equal(t, [][]string{{"", trampolineName(keyOfC), "c"}, {"", "", "c"}}, stackNames(got))
	assert.Equal(t, 1, counts[rewrite.OutcomeResolved][timeline.OriginTrampoline])
	assert.Equal(t, 1, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel])
}

// TestContract_3_5_TrampolinesUnknownKernel: without the core kernel's symbols, it is unknown whether
// trampolines share pages and where functions are patched.
func TestContract_3_5_TrampolinesUnknownKernel(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	bpf := timeline.NewSnapshot(trampolineSnapshot(t, m).Tables()[2])
	got := namesOf(t, bpf, sent["absolute"], trampProg+8, tramp+0x40, text+0x85)
	assert.Equal(t, []string{"bpf_prog_" + progTag, "", ""}, got)
}

// TestContract_3_5_TrampolinesAndUnknownPrograms verifies that exact frames have no name if unknown programs
// may be loaded: one that a trampoline called may have been sampled before it had its own stack frame. The
// patch site then follows it, too.
func TestContract_3_5_TrampolinesAndUnknownPrograms(t *testing.T) {
	m := marks()
	m.SharedTrampolines = true
	name := trampolineName(keyOfC)
	for _, tt := range []struct {
		name    string
		spoil   func(*timeline.Builder)
		isKnown bool
	}{
		{"all programs are known", func(*timeline.Builder) {}, true},
		{"programs could not be listed", func(h *timeline.Builder) { h.SetPartial(true) }, false},
		{"records were lost", func(h *timeline.Builder) {
			h.AddBlind(timeline.Interval{From: nowBoot - 2000*ms, To: nowBoot + 2000*ms})
		}, false},
		{"records were lost at another time", func(h *timeline.Builder) {
			h.AddBlind(timeline.Interval{From: nowBoot - 9000*ms, To: nowBoot - 8000*ms})
		}, true},
	} {
		h := timeline.NewBuilder(remember)
		loadTrampolines(h)
		tt.spoil(h)
		s := timeline.NewSnapshot(append(markedSnapshot(t, m).Tables(), h.Table())...)
		for producer, send := range sent {
			if producer != "absolute" && producer != "eBPF profiler" {
				continue
			}
			want := ""
			if tt.isKnown {
				want = name
			}
			_, scope := send(tramp)
			stacks := rewritetest.NewMessage().Profile(nil, scope)
			for _, ips := range [][]uint64{{tramp + 0x40, text + 0x85}, {text + 0x20, tramp + 0x40, text + 0x85}} {
				var stack []Frame
				for _, ip := range ips {
					f, _ := send(ip)
					stack = append(stack, f)
				}
				timed(stacks.Sample(stack...), nowBoot-1000*ms)
			}
			got, _ := rewriteTimed(t, withHistory, stacks, rewrite.Sources{Snapshot: fixed(s), Clock: knownAt(t, h).Clock})
			assert.Equal(t, want, nameIn(got[0].Stack[0]), "%s, %s, exact", producer, tt.name)
			assert.Equal(t, name, nameIn(got[1].Stack[1]), "%s, %s, caller", producer, tt.name)
		}
	}
}

// TestContract_2_3_UnknownKernel: without the core kernel's symbols, entry code is unknown. A frame at a
// program's first byte may have been interrupted there, or be the return address of the last call in the
// program before it.
func TestContract_2_3_UnknownKernel(t *testing.T) {
	h := timeline.NewBuilder(remember)
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
	h := timeline.NewBuilder(remember)
	loadAt(h, "", slot, 0x100, nowBoot-10_000*ms)
	loadAt(h, "bpf_prog_"+progTag, slot+0x100, 0x100, nowBoot-10_000*ms)
	h.SetCertain(timeline.Forever)
	s := timeline.NewSnapshot(append(testSnapshot(t).Tables(), h.Table())...)
	for _, opts := range []rewrite.Options{{}, {Label: true}, {All: true}, {Addresses: rewrite.KeepAddresses}} {
		m := rewritetest.NewMessage().Profile(nil, "scope").
			Sample(Frame{Address: slot + 8, Mapping: &Mapping{File: "[bpf]"}}, Frame{Address: slot + 0x80}, Frame{Address: slot + 0x108})
		got, counts := runWith(t, opts, m.Profiles, s)
		assert.Equal(t, Frame{Address: slot + 8, Type: "kernel"}, got[0].Stack[0])
		assert.Equal(t, Frame{Address: slot + 0x80, Type: "kernel"}, got[0].Stack[1])
		assert.Equal(t, "bpf_prog_"+progTag, nameIn(got[0].Stack[2]))
		assert.Equal(t, 2, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel])
	}
}
