// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"math"
	"testing"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// The kernel that the fixtures in testdata/producers were sampled in. Its core and the module
// ext4 are where those of testSnapshot are, with the same build ids.
const (
	initText  = text + 0x200000
	xfs       = 0xffffffffc0400000
	xfsID     = "feedbeef00112233445566778899aabbccddeeff"
	onRead    = 0xffffffffc0800000
	onReadTag = "6deef7357e7b4530"
)

// bootIdle is the idle stack of the boot CPU: its functions that run only while the kernel
// starts are at the root (contract 3.2).
var bootIdle = []string{
	"pv_native_safe_halt", "default_idle_call", "do_idle", "cpu_startup_entry", "rest_init",
	"start_kernel", "x86_64_start_reservations", "x86_64_start_kernel", "secondary_startup_64_no_verify",
}

func producersCore(t testing.TB) *symtab.Image {
	t.Helper()
	return testImage(t, symtab.ImageInfo{
		Name: symtab.KernelName, Origin: symtab.OriginKernel, BuildID: kernelID,
		Base: text, Start: text, End: initText + 0x1000, Gap: symtab.Range{Start: text + 0x2000, End: initText},
		Landmarks: &symtab.Landmarks{Arch: "amd64", Entry: symtab.Range{Start: text + 0x1000, End: text + 0x1100}},
	}, func(add func(uint64, string)) {
		add(0, "_text")
		add(0x40, "secondary_startup_64_no_verify")
		add(0x80, "vfs_read")
		add(0x100, "ksys_read")
		add(0x180, "__do_sys_read")
		add(0x180, "__x64_sys_read")
		add(0x200, "do_syscall_64")
		add(0x280, "do_exit") // it ends in a call that never returns
		add(0x300, "do_group_exit")
		add(0x380, "hrtimer_interrupt")
		add(0x400, "default_idle_call")
		add(0x440, "do_idle")
		add(0x480, "cpu_startup_entry")
		add(0x4c0, "rest_init")
		add(0x500, "pv_native_safe_halt")
		add(0x540, "other")
		add(0x1000, "asm_sysvec_apic_timer_interrupt")
		add(0x1080, "entry_SYSCALL_64_after_hwframe")
		add(0x1100, "behind_entry")
		add(initText-text, "_sinittext")
		add(initText-text+0x100, "start_kernel")
		add(initText-text+0x400, "x86_64_start_reservations")
		add(initText-text+0x440, "x86_64_start_kernel")
		add(initText-text+0x500, "last_init")
	})
}

func producersSnapshot(t testing.TB) *symtab.Snapshot {
	t.Helper()
	ext4Module := testImage(t, symtab.ImageInfo{
		Name: "ext4", Origin: symtab.OriginModule, BuildID: ext4ID, Base: ext4, Start: ext4, End: ext4 + ext4Size,
	}, func(add func(uint64, string)) {
		add(0, "ext4_file_read_iter")
		add(0x100, "ext4_buffered_write_iter")
	})
	xfsModule := testImage(t, symtab.ImageInfo{
		Name: "xfs", Origin: symtab.OriginModule, BuildID: xfsID, Base: xfs, Start: xfs, End: xfs + 0x800,
	}, func(add func(uint64, string)) { add(0, "xfs_file_read_iter") })
	noBuild := testImage(t, symtab.ImageInfo{
		Name: "odd_module", Origin: symtab.OriginModule, Base: odd, Start: odd, End: odd + oddSize,
	}, func(add func(uint64, string)) { add(0, "odd") })
	functions := symtab.NewHistory(remember)
	functions.SetCertain(symtab.Forever)
	functions.Load(symtab.NewFunction(symtab.OriginBPF, "bpf_prog_"+onReadTag+"_on_read", onRead, 0x100, math.MinInt64).
		Of(&symtab.Program{ID: 7, Type: "kprobe", Tag: onReadTag}, nil))
	return symtab.NewSnapshot(
		symtab.NewTable(producersCore(t)), symtab.NewTable(ext4Module, xfsModule, noBuild), functions.Table())
}

// producerIPs are the stacks of the fixtures, as instruction pointers: leaf first, the names they
// should have beside them.
var producerIPs = [][]sampledFrame{
	{ // read(2), down to a module
		{ext4 + 0x10, "ext4_file_read_iter"},
		{text + 0xa0, "vfs_read"}, {text + 0x120, "ksys_read"},
		{text + 0x230, "do_syscall_64"}, {text + 0x10cb, "entry_SYSCALL_64_after_hwframe"},
	},
	{ // an interrupt at the first byte of vfs_read
		{text + 0x388, "hrtimer_interrupt"},
		{text + 0x101a, "asm_sysvec_apic_timer_interrupt"},
		{text + 0x80, "vfs_read"}, {text + 0x120, "ksys_read"},
	},
	{{text + 0x80, "vfs_read"}, {text + 0x300, "do_exit"}}, // the last instruction of do_exit is the call
	{
		{text + 0x50b, bootIdle[0]},
		{text + 0x410, bootIdle[1]}, {text + 0x470, bootIdle[2]}, {text + 0x499, bootIdle[3]}, {text + 0x4e6, bootIdle[4]},
		{initText + 0x3f0, bootIdle[5]}, {initText + 0x418, bootIdle[6]}, {initText + 0x4ff, bootIdle[7]},
		{text + 0x7d, bootIdle[8]},
	},
	{{onRead + 0x10, "bpf_prog_" + onReadTag + "_on_read"}, {text + 0xa4, "vfs_read"}},
	{{odd + 4, "odd"}, {ext4 + 0x110, "ext4_buffered_write_iter"}},
}

type sampledFrame struct {
	ip   uint64
	name string
}

// sampledBy returns the stacks as a producer sends them, with frames of a user behind.
func sampledBy(scope string, send func(i int, f sampledFrame) Frame) *rewritetest.Message {
	m := rewritetest.NewMessage().Profile(map[string]any{"process.pid": int64(42)}, scope)
	user := Frame{Address: 0x1234, Type: "native", Mapping: &Mapping{File: "app", Start: 0x1000, Limit: 0x9000, BuildID: "00112233"}}
	python := Frame{Type: "cpython", Lines: []Line{{Name: "main", File: "main.py", Line: 7}}}
	for i, ips := range producerIPs {
		var stack []Frame
		for _, f := range ips {
			stack = append(stack, send(i, f))
		}
		m.Sample(append(stack, user, python)...)
	}
	return m
}
