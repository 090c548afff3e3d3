// SPDX-License-Identifier: Apache-2.0

package symbolize_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// The world of these tests is a small kernel on amd64:
//
//	core + 0x000  vfs_read
//	core + 0x100  asm_sysvec_apic_timer_interrupt   entry code
//	core + 0x140  asm_exc_page_fault                entry code
//	core + 0x180  hrtimer_interrupt                 begins where entry code ends
//	core + 0x200  __x86_indirect_thunk_rax          a thunk
//	core + 0x220  ksys_read
//	core + 0x300                                    the end
const (
	core    = 0xffffffff81000000
	coreEnd = core + 0x300
	timer   = core + 0x100
	fault   = core + 0x140
	hrtimer = core + 0x180
	thunk   = core + 0x200
	ksys    = core + 0x220

	coreID   = "00112233445566778899aabbccddeeff00112233"
	moduleID = "0123456789abcdef0123456789abcdef01234567"
	module   = 0xffffffffc0100000
	tramp    = 0xffffffffc0200000
)

func newCore(t testing.TB) *timeline.Image {
	t.Helper()
	return timelinetest.NewImage(t, timelinetest.Text{
		Origin: timeline.OriginKernel, BuildID: coreID, Base: core, Start: core, End: coreEnd,
		Landmarks: &symtab.Landmarks{
			Arch: "amd64", Entry: symtab.Range{Start: timer, End: hrtimer},
			Thunks: []symtab.Range{{Start: thunk, End: ksys}}, SharedTrampolines: true,
		},
	},
		timelinetest.Symbol{Offset: 0, Name: "vfs_read"},
		timelinetest.Symbol{Offset: 0x100, Name: "asm_sysvec_apic_timer_interrupt"},
		timelinetest.Symbol{Offset: 0x140, Name: "asm_exc_page_fault"},
		timelinetest.Symbol{Offset: 0x180, Name: "hrtimer_interrupt"},
		timelinetest.Symbol{Offset: 0x200, Name: "__x86_indirect_thunk_rax"},
		timelinetest.Symbol{Offset: 0x220, Name: "ksys_read"},
	)
}

func kernelOf(images ...*timeline.Image) *symbolize.Kernel {
	s := timeline.NewSnapshot(timeline.NewTable(images...))
	k := symbolize.New(func() *timeline.Snapshot { return s })
	return &k
}

// frameAt returns a located frame at an address in memory.
func frameAt(k *symbolize.Kernel, addr uint64) *symbolize.Frame {
	f := &symbolize.Frame{Address: addr, Mapping: symbolize.NoMapping, Typed: true}
	k.Locate(f)
	return f
}

// rolesOf walks a stack and returns the roles. An address below the kernel half is not kernel code.
func rolesOf(k *symbolize.Kernel, p symbolize.Producer, stack ...uint64) (roles []symbolize.RoleKind) {
	walk := k.Walk(p)
	for _, addr := range stack {
		if addr>>63 == 0 {
			walk.NextOrdinary()
			continue
		}
		roles = append(roles, walk.Next(frameAt(k, addr), nil).Kind)
	}
	return roles
}

// TestContract_2_3_Roles verifies the roles of one stack for each line of the table at
// [symbolize.Kernel.Walk].
func TestContract_2_3_Roles(t *testing.T) {
	const exact, caller, afterThunk = symbolize.Exact, symbolize.Caller, symbolize.AfterThunk
	k := kernelOf(newCore(t))
	for _, tt := range []struct {
		name  string
		stack []uint64
		want  []symbolize.RoleKind
	}{
		{"leaf and callers", []uint64{core + 8, ksys + 8, ksys + 9}, []symbolize.RoleKind{exact, caller, caller}},
		{"after user code", []uint64{0x1234, core + 8}, []symbolize.RoleKind{caller}},
		{"interrupted", []uint64{hrtimer + 9, timer + 8, core + 8, ksys + 8}, []symbolize.RoleKind{exact, caller, exact, caller}},
		{"entry code calls entry code", []uint64{fault + 4, timer + 8, core + 8}, []symbolize.RoleKind{exact, caller, exact}},
		{"after a thunk", []uint64{thunk + 4, core + 8}, []symbolize.RoleKind{exact, afterThunk}},
		{"a caller returns to the first byte after entry code", []uint64{core + 8, hrtimer, ksys + 8}, []symbolize.RoleKind{exact, caller, exact}},
	} {
		assert.Equal(t, tt.want, rolesOf(k, symbolize.OtherProducer, tt.stack...), tt.name)
		sent := make([]uint64, len(tt.stack))
		for i, ip := range tt.stack {
			sent[i] = ip - 1
		}
		assert.Equal(t, tt.want, rolesOf(k, symbolize.EBPFProfiler, sent...), "%s, from the eBPF profiler", tt.name)
	}
	assert.Equal(t, []symbolize.RoleKind{caller, caller}, rolesOf(k, symbolize.OtherHost, timer+8, core+8),
		"all roles of another host's frames are the same")
}

// TestContract_2_3_UnknownRole verifies the roles of frames that follow a frame of a core kernel
// whose build is not known.
func TestContract_2_3_UnknownRole(t *testing.T) {
	k := kernelOf(newCore(t))
	mapping := symbolize.NewMapping(symbolize.Mapping{File: "[kernel.kallsyms]", Limit: 1 << 20})
	walk := k.Walk(symbolize.OtherProducer)
	nowhere := &symbolize.Frame{Address: 0x1000, Mapping: &mapping, Typed: true}
	k.Locate(nowhere)
	assert.Equal(t, symbolize.Exact, walk.Next(nowhere, nil).Kind)
	assert.Equal(t, symbolize.Unknown, walk.Next(frameAt(k, core+8), nil).Kind)
	assert.Equal(t, symbolize.Caller, walk.Next(frameAt(k, core+9), nil).Kind, "in both readings, the frame before it is ordinary code")

	walk = k.Walk(symbolize.OtherProducer)
	walk.Next(nowhere, nil)
	assert.Equal(t, symbolize.Caller, walk.Next(frameAt(k, timer+8), nil).Kind, "only a call leads from entry code to entry code")
}

// TestContract_2_5_NamedBPF verifies the role of the frame after a BPF frame of the OTel eBPF
// profiler: one with a name, an offset for an address, and no mapping. It lies in no entry code, so
// the frame after it is a caller.
func TestContract_2_5_NamedBPF(t *testing.T) {
	k := kernelOf(newCore(t))
	for _, tt := range []struct {
		name     string
		producer symbolize.Producer
		named    bool
		want     symbolize.RoleKind
	}{
		{"from the profiler", symbolize.EBPFProfiler, true, symbolize.Caller},
		{"from the profiler, without a name", symbolize.EBPFProfiler, false, symbolize.Unknown},
		{"from another producer", symbolize.OtherProducer, true, symbolize.Unknown},
	} {
		walk := k.Walk(tt.producer)
		program := &symbolize.Frame{Address: 0x18, Mapping: symbolize.NoMapping, Typed: true, Named: tt.named}
		k.Locate(program)
		walk.Next(program, nil)
		assert.Equal(t, tt.want, walk.Next(frameAt(k, core+8), nil).Kind, tt.name)
	}
}

// TestContract_2_3_LookedUpAddress verifies which address is looked up in each role. A function
// ends with a call, so the return address is the first byte of the next function.
func TestContract_2_3_LookedUpAddress(t *testing.T) {
	k := kernelOf(newCore(t))
	const ip = ksys // the first byte of ksys_read; the thunk's symbol covers the byte before
	for _, tt := range []struct {
		kind symbolize.RoleKind
		want string
		at   uint64
	}{
		{symbolize.Exact, "ksys_read", ip},
		{symbolize.Caller, "__x86_indirect_thunk_rax", ip - 1},
		{symbolize.AfterThunk, "ksys_read", ip},
		{symbolize.Interruptible, "", 0},
	} {
		for producer, sent := range map[symbolize.Producer]uint64{symbolize.OtherProducer: ip, symbolize.EBPFProfiler: ip - 1} {
			a, same := k.Resolve(frameAt(k, sent), symbolize.Role{Kind: tt.kind, Producer: producer}, timeline.Present)
			assert.Equal(t, timeline.Always, same)
			if tt.want == "" {
				assert.Equal(t, symbolize.Unresolved, a.Outcome)
				continue
			}
			require.Equal(t, symbolize.Resolved, a.Outcome)
			assert.Equal(t, tt.want, a.Image.SymbolName(a.Symbol).Name, "role %d", tt.kind)
			assert.Equal(t, tt.at, a.Address)
		}
	}
}

// TestContract_2_3_WithoutCore verifies that any frame except the leaf may have been interrupted as
// long as the symbols of the core kernel are not known.
func TestContract_2_3_WithoutCore(t *testing.T) {
	k := kernelOf(timeline.NewFunction(timeline.OriginBPF, "bpf_prog_1", module, 0x100, 0))
	assert.Equal(t, []symbolize.RoleKind{symbolize.Exact, symbolize.Interruptible, symbolize.Interruptible},
		rolesOf(k, symbolize.OtherProducer, module+8, module+0x10, timer+8))
}

// TestContract_2_3_FirstByteBehindCode verifies the answer for a caller at the first byte of a
// function. It is that function if nothing precedes it. It is unresolved if unnamed code precedes
// it, because that code can have made the call.
func TestContract_2_3_FirstByteBehindCode(t *testing.T) {
	program := func(name string, start uint64) *timeline.Image {
		return timeline.NewFunction(timeline.OriginBPF, name, start, 0x40, 0)
	}
	for _, tt := range []struct {
		name     string
		programs []*timeline.Image
		want     symbolize.Outcome
	}{
		{"nothing", []*timeline.Image{program("bpf_prog_1", module)}, symbolize.Resolved},
		{"code without a name", []*timeline.Image{program("", module-0x40), program("bpf_prog_1", module)}, symbolize.Unresolved},
	} {
		h := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: 10})
		for _, p := range tt.programs {
			h.Load(p)
		}
		h.SetCertain(timeline.Forever)
		s := timeline.NewSnapshot(timeline.NewTable(newCore(t)), h.Table())
		k := symbolize.New(func() *timeline.Snapshot { return s })
		a, _ := k.Resolve(frameAt(&k, module), symbolize.Role{Kind: symbolize.Caller}, timeline.Instant(int64(time.Minute)))
		assert.Equal(t, tt.want, a.Outcome, tt.name)
	}
}

// TestContract_3_5_PatchSiteAtTheTimeOfTheSample verifies that a patch site counts only at the time
// of the sample. A module's function calls a trampoline. The module is loaded twice, the second
// time with its function elsewhere, so that the old patch site no longer is one.
//
//	module, first load   ══════════════╡         function at +0x100
//	module, second load                  ╞══════ function at +0x180
//	trampoline           ═══════════════════════
//	samples                   1     2       3
func TestContract_3_5_PatchSiteAtTheTimeOfTheSample(t *testing.T) {
	const second = int64(time.Second)
	load := func(offset uint64, from int64) *timeline.Image {
		return timelinetest.NewImage(t, timelinetest.Text{
			Origin: timeline.OriginModule, Name: "traced", BuildID: moduleID, Base: module, Start: module, End: module + 0x1000,
			Lifetime: timeline.Interval{From: from, To: timeline.Forever},
		}, timelinetest.Symbol{Name: "first"}, timelinetest.Symbol{Offset: offset, Name: "called"})
	}
	h := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: 10})
	first := load(0x100, 0)
	h.Load(first)
	const key timeline.TrampolineKey = 2<<32 | 1<<31 | 9
	h.Load(timeline.NewFunction(timeline.OriginTrampoline, fmt.Sprintf("bpf_trampoline_%d", key), tramp, 0x1000, 0))
	h.SetTraced(map[timeline.TrampolineKey]timeline.TracedFunction{key: {Image: "traced", Name: "called"}})
	h.Unload(first, 20*second)
	h.Load(load(0x180, 21*second))
	h.SetCertain(timeline.Forever)
	s := timeline.NewSnapshot(timeline.NewTable(newCore(t)), h.Table())
	k := symbolize.New(func() *timeline.Snapshot { return s })

	caller, f := frameAt(&k, module+0x105), frameAt(&k, tramp+0x40)
	walk := k.Walk(symbolize.OtherProducer)
	role := walk.Next(f, caller)
	require.Same(t, caller, role.Caller, "it is needed as evidence")
	for at, want := range map[int64]symbolize.Outcome{
		5 * second: symbolize.Resolved, 10 * second: symbolize.Resolved, 30 * second: symbolize.Unresolved,
	} {
		a, same := k.Resolve(f, role, timeline.Instant(at))
		assert.Equal(t, want, a.Outcome, "at %d s", at/second)
		assert.True(t, same.Holds(timeline.Instant(at)))
		assert.False(t, same.Holds(timeline.Instant(20*second)), "the answer ends with the load of the module")
	}
	_, same := k.Resolve(f, role, timeline.Interval{From: 5 * second, To: 30 * second})
	assert.True(t, same.IsEmpty(), "the answers differ within the interval")
}

// TestContract_10_2_WantedPacks verifies that the pack of a core kernel is wanted even for a frame
// that arrived with a name, because it decides the role of the next frame.
func TestContract_10_2_WantedPacks(t *testing.T) {
	s := timeline.NewPackSnapshot(newCore(t))
	k := symbolize.NewGateway(func() *timeline.Snapshot { return s })
	for _, tt := range []struct {
		name        string
		file, build string
		isCandidate bool
		want        string
	}{
		{"candidate", "ext4", moduleID, true, moduleID},
		{"no candidate", "ext4", moduleID, false, ""},
		{"no candidate, a core kernel with a pack", "vmlinux", coreID, false, coreID},
		{"no candidate, a core kernel without a pack", "vmlinux", moduleID, false, moduleID},
	} {
		mapping := symbolize.NewMapping(symbolize.Mapping{File: tt.file, BuildID: tt.build})
		f := symbolize.Frame{Address: 8, Mapping: &mapping, Typed: true}
		k.Locate(&f)
		build, file := k.WantsPack(&f, tt.isCandidate)
		assert.Equal(t, tt.want, build, tt.name)
		assert.Empty(t, file)
	}
}

// TestRoleNumbers verifies that each role without a caller has its own number.
func TestRoleNumbers(t *testing.T) {
	for n := range symbolize.NumPlainRoles {
		assert.Equal(t, n, symbolize.RoleNumber(n).Number())
	}
}

// TestResolveDoesNotAllocate verifies that resolving does not allocate, for a frame in the core
// kernel and for one whose answer depends on the time.
func TestResolveDoesNotAllocate(t *testing.T) {
	k := kernelOf(newCore(t), timeline.NewFunction(timeline.OriginBPF, "bpf_prog_1", module, 0x100, 0))
	for _, addr := range []uint64{core + 8, module + 8} {
		f := frameAt(k, addr)
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			k.Resolve(f, symbolize.Role{Kind: symbolize.Caller}, timeline.Instant(1))
		}))
	}
}

// TestSnapshotIsLoadedOnce verifies that all answers of a kernel come from one snapshot.
func TestSnapshotIsLoadedOnce(t *testing.T) {
	loads := 0
	k := symbolize.New(func() *timeline.Snapshot { loads++; return nil })
	assert.Zero(t, loads, "not before it is needed")
	assert.Equal(t, symbolize.Unresolved, func() symbolize.Outcome {
		a, _ := k.Resolve(frameAt(&k, core), symbolize.Role{}, timeline.Present)
		return a.Outcome
	}())
	k.Snapshot()
	assert.Equal(t, 1, loads)
}
