// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/ebpf-profiler/libpf"
	"go.opentelemetry.io/ebpf-profiler/reporter"
	"go.opentelemetry.io/ebpf-profiler/reporter/samples"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// The kernel of these tests.
const (
	text     = 0xffffffff81000000
	kernelID = "4a5a9b0affb66c437abcd455d2738af879985fa9"
	ext4     = 0xffffffffc0200000
	ext4ID   = "deadbeef00112233445566778899aabbccddeeff"
	odd      = 0xffffffffc0300000 // a module without a build id
	program  = 0xffffffffc0400000
	nowhere  = 0xffffffffc0500000
	tramp    = 0xffffffffc0600000

	programName = "bpf_prog_0123456789abcdef_x"
	trampName   = "bpf_trampoline_6442450951"
)

// trampKey is the key of the trampoline, which is vfs_read's: type 7 in the BTF with id 1, that of the kernel.
const trampKey timeline.TrampolineKey = 1<<32 | 1<<31 | 7

// image returns an image with a symbol every 256 bytes.
func image(t *testing.T, text timelinetest.Text, names ...string) *timeline.Image {
	t.Helper()
	var symbols []timelinetest.Symbol
	for i, name := range names {
		symbols = append(symbols, timelinetest.Symbol{Offset: uint64(i) * 0x100, Name: name})
	}
	text.Start, text.End = text.Base, text.Base+0x1000
	return timelinetest.NewImage(t, text, symbols...)
}

func snapshot(t *testing.T) *timeline.Snapshot {
	t.Helper()
	bpf := timeline.NewBuilder(timeline.Limits{MaxEntries: 1})
	bpf.Load(timeline.NewFunction(timeline.OriginBPF, programName, program, 0x100, timeline.Always.From))
	bpf.Load(timeline.NewFunction(timeline.OriginTrampoline, trampName, tramp, 0x1000, timeline.Always.From))
	bpf.SetTraced(map[timeline.TrampolineKey]timeline.TracedFunction{trampKey: {Image: timeline.KernelName, Name: "vfs_read"}})
	bpf.SetCertain(timeline.Forever)
	marks := &symtab.Landmarks{Arch: "amd64", SharedTrampolines: true}
	return timeline.NewSnapshot(
		timeline.NewTable(image(t, timelinetest.Text{Name: timeline.KernelName, BuildID: kernelID, Base: text, Landmarks: marks},
			"_text", "vfs_read", "ksys_read", "do_syscall_64", "__pfx_padding")),
		timeline.NewTable(
			image(t, timelinetest.Text{Name: "ext4", Origin: timeline.OriginModule, BuildID: ext4ID, Base: ext4}, "ext4_read", "ext4_write"),
			image(t, timelinetest.Text{Name: "odd", Origin: timeline.OriginModule, Base: odd}, "odd_work"),
		),
		bpf.Table(),
	)
}

// packs returns the kernel's pack. vfs_read has fput inlined, at the address of a stack; of all else, it has nothing.
func packs(t *testing.T) *pack.Set {
	t.Helper()
	w := pack.NewWriter(pack.Info{
		BuildID: kernelID, Name: pack.KernelName, Arch: "amd64", Text: text, Stext: text, Extent: pack.Range{End: 0x1000},
	})
	read := w.Node(0, w.Function("vfs_read", w.File("fs/read_write.c"), 1), 0, 0)
	w.Row(0x100, w.Node(read, w.Function("fput", w.File("fs/file_table.c"), 1), w.File("fs/read_write.c"), 474), w.File("fs/file_table.c"), 340)
	w.Row(0x200, 0, 0, 0)
	core := snapshot(t).Core()
	for s := range core.Symbols() {
		w.Symbol(pack.Symbol{Range: pack.Range{Start: uint32(s.Start - text), End: uint32(s.End() - text)}, Name: core.SymbolName(s).System})
	}
	data, err := w.Bytes()
	require.NoError(t, err)
	p, err := pack.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return pack.NewSet([]*pack.Pack{p})
}

// file returns a mapping of a file, as the profiler makes it.
func file(name, buildID string) libpf.FrameMapping {
	data := libpf.FrameMappingFileData{FileName: libpf.Intern(name), GnuBuildID: buildID, FileID: libpf.FileIDFromKernelBuildID(buildID)}
	return libpf.NewFrameMapping(libpf.FrameMappingData{File: libpf.NewFrameMappingFile(data)})
}

// kernelFrame returns a frame as the profiler makes it. The profiler subtracts 1 from each ip, and
// the base of each image that it knows. A frame of an image that it does not know has no mapping.
func kernelFrame(ip, base uint64, mapping libpf.FrameMapping) libpf.Frame {
	return libpf.Frame{Type: libpf.KernelFrame, AddressOrLineno: libpf.AddressOrLineno(ip - 1 - base), Mapping: mapping}
}

// profilersStacks returns stacks of the OTel eBPF profiler, which had no names for the kernel.
func profilersStacks() [][]libpf.Frame {
	vmlinux, module := file("vmlinux", kernelID), file("ext4", ext4ID)
	user := []libpf.Frame{
		{Type: libpf.NativeFrame, AddressOrLineno: 0x1234, Mapping: file("libc.so.6", "00ff")},
		{Type: libpf.PythonFrame, FunctionName: libpf.Intern("run"), SourceFile: libpf.Intern("run.py"), SourceLine: 3},
	}
	read := []libpf.Frame{
		kernelFrame(text+0x205, text, vmlinux),
		kernelFrame(text+0x300, text, vmlinux), // after a call that does not return
	}
	bpf := libpf.Frame{Type: libpf.KernelFrame, AddressOrLineno: 0x40, FunctionName: libpf.Intern("bpf_prog_fedcba9876543210_y")}
	return [][]libpf.Frame{
		slices.Concat([]libpf.Frame{kernelFrame(text+0x105, text, vmlinux)}, read, user),
		slices.Concat([]libpf.Frame{kernelFrame(ext4+0x110, ext4, module)}, read, user),
		slices.Concat([]libpf.Frame{bpf, kernelFrame(program+0x20, 0, libpf.FrameMapping{})}, read, user),
		// An owner that is not known, in the middle and as the leaf; padding; a module that the
		// profiler does not know; and a frame of another kernel. Only the module's frame gets a
		// name.
		slices.Concat([]libpf.Frame{kernelFrame(text+0x105, text, vmlinux), kernelFrame(nowhere, 0, libpf.FrameMapping{})}, read, user),
		slices.Concat([]libpf.Frame{kernelFrame(nowhere+8, 0, libpf.FrameMapping{})}, read),
		slices.Concat([]libpf.Frame{kernelFrame(text+0x405, text, vmlinux)}, read),
		slices.Concat([]libpf.Frame{kernelFrame(odd+0x10, 0, libpf.FrameMapping{})}, read),
		slices.Concat([]libpf.Frame{kernelFrame(text+0x105, text, file("vmlinux", "5a5a5a5a"))}, read),
		slices.Concat([]libpf.Frame{
			kernelFrame(program+0x20, 0, libpf.FrameMapping{}), kernelFrame(tramp+0x30, 0, libpf.FrameMapping{}),
			kernelFrame(text+0x105, text, vmlinux), // at the patch site
		}, read),
	}
}

// profilersMessage makes a message from stacks with the OTel eBPF profiler's own code. Some stacks
// occur several times.
func profilersMessage(t *testing.T, stacks [][]libpf.Frame) pprofile.Profiles {
	t.Helper()
	sink := new(consumertest.ProfilesSink)
	r, err := reporter.NewCollector(&reporter.Config{
		Name: "go.opentelemetry.io/ebpf-profiler", SamplesPerSecond: 97, ReportInterval: 10 * time.Millisecond,
	}, sink)
	require.NoError(t, err)
	onCPU := &samples.TypeMetadata{PeriodType: "cpu", PeriodUnit: "nanoseconds", SampleType: "samples", SampleUnit: "count"}
	for i, stack := range stacks {
		for k := range 1 + i%3 {
			trace := new(libpf.Trace)
			for _, f := range stack {
				trace.Frames.Append(&f)
			}
			require.NoError(t, r.ReportTraceEvent(trace, &samples.TraceEventMeta{
				Comm: libpf.NewCommFromString("app"), PID: 10, TID: 11, ProfileType: onCPU,
				Timestamp: libpf.UnixTime64(1_000_000_000_000_000_000 + 1000*i + k), Value: 1,
			}))
		}
	}
	require.NoError(t, r.Start(t.Context()))
	defer r.Stop()
	require.Eventually(t, func() bool { return len(sink.AllProfiles()) > 0 }, otelcol.Patience, 10*time.Millisecond)
	return sink.AllProfiles()[0]
}

// profilersShapes are the settings with which the processor writes what the profiler sends in different forms.
var profilersShapes = map[string]rewrite.Options{
	"relative": {Addresses: rewrite.RelativeAddresses},
	"keep":     {Addresses: rewrite.KeepAddresses},
	"hide":     {Addresses: rewrite.HideAddresses},
	"label":    {Label: true},
	"all":      {All: true},
	"inlined":  {DebugInfo: true, Inline: true},
}

// namedMessage returns what the processor makes of a message of the profiler.
func namedMessage(t *testing.T, opts rewrite.Options) pprofile.Profiles {
	t.Helper()
	pd := profilersMessage(t, profilersStacks())
	before := pprofile.NewProfiles()
	pd.CopyTo(before)
	known := rewrite.Sources{Snapshot: func() *timeline.Snapshot { return snapshot(t) }, Packs: packs(t)}
	pd = rewrite.New(opts).Rewrite(pd, known).Profiles
	require.NoError(t, rewritetest.CheckRewritten(before, pd))
	require.NoError(t, rewritetest.CheckSent(pd))
	return pd
}

// TestProfilerShape verifies that every event in messages of the OTel eBPF profiler arrives at the
// backends, with all names, if some frames get a name and others do not.
func TestProfilerShape(t *testing.T) {
	for shape, opts := range profilersShapes {
		t.Run(shape, func(t *testing.T) {
			pd := namedMessage(t, opts)
			names := make(map[string]bool)
			nameless := 0
			for _, s := range rewritetest.Samples(pd) {
				for _, f := range s.Stack {
					if f.Type == "kernel" && len(f.Lines) == 0 {
						nameless++
					}
					for _, l := range f.Lines {
						names[l.Name] = true
					}
				}
			}
			for _, want := range []string{"vfs_read", "ksys_read", "ext4_write", "odd_work", programName, trampName, "run"} {
				assert.True(t, names[want], "%s is not among %v", want, slices.Sorted(maps.Keys(names)))
			}
			assert.Equal(t, opts.Inline, names["fput"])
			assert.Positive(t, nameless)
			assert.Len(t, stacksOf(pd), 1+2+3+1+2+3+1+2+3)
			requireDelivered(t, pd)
			requireTranslated(t, pd)
		})
	}
}
