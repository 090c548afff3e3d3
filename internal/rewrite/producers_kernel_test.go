// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"math"
	"testing"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// The kernel in which the fixtures in testdata/producers were sampled. Its core and its module ext4 have the
// addresses and the build ids of testSnapshot.
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

func producersCore(t testing.TB) *timeline.Image {
	t.Helper()
	return timelinetest.NewImage(t, timelinetest.Text{
		Name: timeline.KernelName, Origin: timeline.OriginKernel, BuildID: kernelID,
		Base: text, Start: text, End: initText + 0x1000, Gap: symtab.Range{Start: text + 0x2000, End: initText},
		Landmarks: &symtab.Landmarks{Arch: "amd64", Entry: symtab.Range{Start: text + 0x1000, End: text + 0x1100}},
	}, []timelinetest.Symbol{
		{Offset: 0, Name: "_text"},
		{Offset: 0x40, Name: "secondary_startup_64_no_verify"},
		{Offset: 0x80, Name: "vfs_read"},
		{Offset: 0x100, Name: "ksys_read"},
		{Offset: 0x180, Name: "__do_sys_read"},
		{Offset: 0x180, Name: "__x64_sys_read"},
		{Offset: 0x200, Name: "do_syscall_64"},
		{Offset: 0x280, Name: "do_exit"}, // it ends in a call that never returns
		{Offset: 0x300, Name: "do_group_exit"},
		{Offset: 0x380, Name: "hrtimer_interrupt"},
		{Offset: 0x400, Name: "default_idle_call"},
		{Offset: 0x440, Name: "do_idle"},
		{Offset: 0x480, Name: "cpu_startup_entry"},
		{Offset: 0x4c0, Name: "rest_init"},
		{Offset: 0x500, Name: "pv_native_safe_halt"},
		{Offset: 0x540, Name: "other"},
		{Offset: 0x1000, Name: "asm_sysvec_apic_timer_interrupt"},
		{Offset: 0x1080, Name: "entry_SYSCALL_64_after_hwframe"},
		{Offset: 0x1100, Name: "behind_entry"},
		{Offset: initText - text, Name: "_sinittext"},
		{Offset: initText - text + 0x100, Name: "start_kernel"},
		{Offset: initText - text + 0x400, Name: "x86_64_start_reservations"},
		{Offset: initText - text + 0x440, Name: "x86_64_start_kernel"},
		{Offset: initText - text + 0x500, Name: "last_init"},
	}...)
}

func producersSnapshot(t testing.TB) *timeline.Snapshot {
	t.Helper()
	ext4Module := timelinetest.NewImage(t, timelinetest.Text{
		Name: "ext4", Origin: timeline.OriginModule, BuildID: ext4ID, Base: ext4, Start: ext4, End: ext4 + ext4Size,
	}, []timelinetest.Symbol{
		{Offset: 0, Name: "ext4_file_read_iter"},
		{Offset: 0x100, Name: "ext4_buffered_write_iter"},
	}...)
	xfsModule := timelinetest.NewImage(t, timelinetest.Text{
		Name: "xfs", Origin: timeline.OriginModule, BuildID: xfsID, Base: xfs, Start: xfs, End: xfs + 0x800,
	}, timelinetest.Symbol{Name: "xfs_file_read_iter"})
	noBuild := timelinetest.NewImage(t, timelinetest.Text{
		Name: "odd_module", Origin: timeline.OriginModule, Base: odd, Start: odd, End: odd + oddSize,
	}, timelinetest.Symbol{Name: "odd"})
	functions := timeline.NewBuilder(remember)
	functions.SetCertain(timeline.Forever)
	functions.Load(timeline.NewFunction(timeline.OriginBPF, "bpf_prog_"+onReadTag+"_on_read", onRead, 0x100, math.MinInt64).
		WithProgram(&timeline.Program{ID: 7, Type: "kprobe", Tag: onReadTag}, nil))
	return timeline.NewSnapshot(
		timeline.NewTable(producersCore(t)), timeline.NewTable(ext4Module, xfsModule, noBuild), functions.Table())
}

// producerIPs has the stacks of the fixtures as instruction pointers, leaf first, with the names that they
// should get.
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

// sampledBy returns the stacks as a producer sends them, followed by user frames.
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
