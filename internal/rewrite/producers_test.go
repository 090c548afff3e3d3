// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

var update = flag.Bool("update", false, "write the golden files of the producers")

// producers returns messages as producers send them. The producers' own code made the files:
//
//   - ebpf_profiler_*.json by reporter.NewCollector and ReportTraceEvent of
//     go.opentelemetry.io/ebpf-profiler v0.0.202633, for frames as
//     processmanager/kernelsymbolization.go makes them: with the name of each, of none
//     (kallsyms shows no names), or of every other stack. That code looks a frame up at its
//     return address. off_cpu and probe have the types of tracer/systemconfig.go and
//     probes/kprobe, two events for each stack, and no names. off_cpu has a value for each.
//   - perf_pprof_*.json by pprof.ConvertPprofToProfiles of
//     github.com/open-telemetry/opentelemetry-collector-contrib/pkg/translator/pprof v0.158.0, for
//     a profile as perf_to_profile makes it (google/perf_data_converter e2c2da7,
//     src/perf_data_converter.cc): absolute addresses, 1 taken off callers. In wrong_build_id, the
//     module xfs has the build id of ext4, as perf before Linux 7.0 writes.
func producers(t *testing.T) map[string]pprofile.Profiles {
	t.Helper()
	all := make(map[string]pprofile.Profiles)
	files, err := filepath.Glob("testdata/producers/*.json")
	require.NoError(t, err)
	require.Len(t, files, 8)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		pd, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(data)
		require.NoError(t, err)
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = pd
	}

	// kernelstackreceiver/message.go; also perf by the recipe in docs/producers.md.
	all["kernelstack"] = sampledBy("github.com/kernelsym/kernelsym/kernelstackreceiver", func(_ int, f sampledFrame) Frame {
		return Frame{Address: f.ip, Type: "kernel"}
	}).Profiles

	// Addresses of a symbolizer that counts from the image, as the CPU had them: not in
	// looked-up form, as the mapping has a limit.
	all["relative"] = sampledBy("", func(_ int, f sampledFrame) Frame {
		base, mapping := imageOf(f.ip)
		if mapping == nil {
			return Frame{Address: f.ip, Type: "kernel"}
		}
		mapping.Limit, mapping.FileID = 1<<30, ""
		return Frame{Address: f.ip - base, Type: "kernel", Mapping: mapping}
	}).Profiles

	all["parca_agent"] = parcaAgent().Profiles
	all["string_value_strindex"] = byIndex(t, copied(all["ebpf_profiler_not_symbolized"]), 0)
	return all
}

// imageOf returns the mapping that the eBPF profiler has for an ip, nil for none, and its base.
func imageOf(ip uint64) (base uint64, mapping *Mapping) {
	switch {
	case ip < odd:
		if ip >= ext4 {
			return ext4, ext4Mapping()
		}
		return text, vmlinux()
	case ip < odd+oddSize:
		return odd, &Mapping{File: "odd_module"}
	}
	return 0, nil
}

// parcaAgent returns a message as parca-agent sends it with --remote-store-format=otlp since PR 3229. In
// reporter/frames.go (226a91c), classifyFrame gives each kernel frame the file name [kernel.kallsyms], the
// GNU build id of its image if it has one, no file ID, and a function whose file is the image's name, and
// which is UNKNOWN if it has no name. internMapping in reporter/pprofile.go sets neither start nor limit. The
// addresses come from parca-agent's fork of the eBPF profiler (9ece4f9, tracer/tracer.go,
// symbolizeKernelFrames). Here it names every other stack.
func parcaAgent() *rewritetest.Message {
	return sampledBy("parca-agent", func(i int, f sampledFrame) Frame {
		frame := Frame{Address: f.ip - 1, Type: "kernel", Mapping: &Mapping{File: "[kernel.kallsyms]"}}
		line := Line{Name: "UNKNOWN", System: "UNKNOWN", File: "vmlinux"}
		if base, mapping := imageOf(f.ip); mapping != nil {
			frame.Address -= base
			frame.Mapping.BuildID, line.File = mapping.BuildID, mapping.File
		}
		if i%2 == 0 {
			line.Name, line.System = f.name, f.name
			if f.ip >= onRead {
				frame.Address = f.ip - onRead
			}
		}
		frame.Lines = []Line{line}
		return frame
	})
}

// producerModes are the settings that the golden files show.
var producerModes = []struct {
	name string
	opts rewrite.Options
}{
	{"default", rewrite.Options{}},
	{"all", rewrite.Options{All: true}},
	{"keep", rewrite.Options{Addresses: rewrite.KeepAddresses}},
	{"all, keep", rewrite.Options{All: true, Addresses: rewrite.KeepAddresses}},
}

// TestProducers: each frame comes out as in the golden file, and everything else is unchanged. runWith also
// checks that a second pass changes nothing.
func TestProducers(t *testing.T) {
	all := producers(t)
	for name, pd := range all {
		t.Run(name, func(t *testing.T) {
			came := rewritetest.Samples(pd)
			var got [][]rewritetest.Sample
			var counts []string
			for _, mode := range producerModes {
				out := copied(pd)
				samples, c := runWith(t, mode.opts, out, producersSnapshot(t))
				got, counts = append(got, samples), append(counts, mode.name+": "+countsText(c))
			}
			checkGolden(t, name, framesText(came, got)+strings.Join(counts, "\n")+"\n")
		})
	}
}

func checkGolden(t *testing.T, name, text string) {
	t.Helper()
	golden := filepath.Join("testdata/producers", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), text)
}

// framesText shows each frame as it came and, where that differs, as it came out.
func framesText(came []rewritetest.Sample, got [][]rewritetest.Sample) string {
	var b strings.Builder
	first := make(map[string]int)
	for i := range came {
		var lines strings.Builder
		for k := range came[i].Stack {
			in := frameText(came[i].Stack[k])
			fmt.Fprintln(&lines, in)
			modes := make(map[string][]string)
			for m, samples := range got {
				if out := frameText(samples[i].Stack[k]); out != in {
					modes[out] = append(modes[out], producerModes[m].name)
				}
			}
			for _, out := range slices.SortedFunc(maps.Keys(modes), func(x, y string) int {
				return strings.Compare(modes[y][0], modes[x][0])
			}) {
				fmt.Fprintf(&lines, "\t%s (%s)\n", out, strings.Join(modes[out], "; "))
			}
		}
		if same, ok := first[lines.String()]; ok {
			fmt.Fprintf(&b, "stack %d: as stack %d\n\n", i+1, same)
			continue
		}
		first[lines.String()] = i + 1
		fmt.Fprintf(&b, "stack %d\n%s\n", i+1, lines.String())
	}
	return b.String()
}

// frameText shows all of a frame.
func frameText(f Frame) string {
	text := fmt.Sprintf("%#x", f.Address)
	for _, l := range f.Lines {
		text += fmt.Sprintf(" %q", l.Name)
		if l.System != l.Name {
			text += fmt.Sprintf(" system %q", l.System)
		}
		if l.File != "" || l.Line != 0 || l.Column != 0 {
			text += fmt.Sprintf(" of %s:%d:%d", l.File, l.Line, l.Column)
		}
	}
	text += fmt.Sprintf(" type %q%s", f.Type, attributesText(f.Attributes))
	if m := f.Mapping; m != nil {
		text += fmt.Sprintf(" in %q", m.File)
		if m.Start != 0 || m.Limit != 0 || m.Offset != 0 {
			text += fmt.Sprintf(" %#x-%#x@%#x", m.Start, m.Limit, m.Offset)
		}
		text += fmt.Sprintf(" build id %q file ID %q%s", m.BuildID, m.FileID, attributesText(m.Attributes))
	}
	return text
}

func attributesText(attributes map[string]any) (text string) {
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		text += fmt.Sprintf(" %s=%v", key, attributes[key])
	}
	return text
}

func countsText(c rewrite.Counts) string {
	var parts []string
	for o := range rewrite.Outcome(rewrite.NumOutcomes) {
		n := 0
		for _, count := range c[o] {
			n += count
		}
		if n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", o))
		}
	}
	return strings.Join(parts, ", ")
}
