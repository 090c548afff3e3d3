// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
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

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
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

	programName = "bpf_prog_0123456789abcdef_x"
)

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
	return timeline.NewSnapshot(
		timeline.NewTable(image(t, timelinetest.Text{Name: timeline.KernelName, BuildID: kernelID, Base: text},
			"_text", "vfs_read", "ksys_read", "do_syscall_64", "__pfx_padding")),
		timeline.NewTable(
			image(t, timelinetest.Text{Name: "ext4", Origin: timeline.OriginModule, BuildID: ext4ID, Base: ext4}, "ext4_read", "ext4_write"),
			image(t, timelinetest.Text{Name: "odd", Origin: timeline.OriginModule, Base: odd}, "odd_work"),
		),
		timeline.NewTable(timeline.NewFunction(timeline.OriginBPF, programName, program, 0x100, timeline.Always.From)),
	)
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

// TestProfilerShape verifies that every event in messages of the OTel eBPF profiler arrives at the
// backends, with all names, if some frames get a name and others do not.
func TestProfilerShape(t *testing.T) {
	for _, opts := range []rewrite.Options{{}, {Addresses: rewrite.KeepAddresses}, {Label: true}, {All: true}} {
		pd := profilersMessage(t, profilersStacks())
		before := pprofile.NewProfiles()
		pd.CopyTo(before)
		known := rewrite.Sources{Snapshot: func() *timeline.Snapshot { return snapshot(t) }}
		pd = rewrite.New(opts).Rewrite(pd, known).Profiles
		require.NoError(t, rewritetest.CheckRewritten(before, pd))
		require.NoError(t, rewritetest.CheckSent(pd))

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
		for _, want := range []string{"vfs_read", "ksys_read", "ext4_write", "odd_work", programName, "run"} {
			assert.True(t, names[want], "%s is not among %v", want, slices.Sorted(maps.Keys(names)))
		}
		assert.Positive(t, nameless)
		assert.Len(t, stacksOf(pd), 1+2+3+1+2+3+1+2)
		requireDelivered(t, pd)
		requireTranslated(t, pd)
	}
}
