// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// kernelFrames returns the kernel frames of a stack, without the user's.
func kernelFrames(stack []Frame) []Frame {
	return slices.DeleteFunc(slices.Clone(stack), func(f Frame) bool {
		return nameIn(f) == "main" || f.Mapping != nil && strings.HasSuffix(f.Mapping.File, "app")
	})
}

// TestContract_3_2_BootIdle: whatever the producer, the functions that run only while the kernel
// starts are at the root of the boot CPU's idle stack. parca-agent and the eBPF profiler may
// have named it themselves, so this is with rewrite: all.
func TestContract_3_2_BootIdle(t *testing.T) {
	for name, pd := range producers(t) {
		samples, _ := runWith(t, rewrite.Options{All: true}, pd, producersSnapshot(t))
		found := false
		for _, s := range samples {
			if names := frameNames(kernelFrames(s.Stack)); names[0] == bootIdle[0] {
				found = true
				assert.Equal(t, bootIdle, names, name)
			}
		}
		assert.True(t, found, name)
	}
}

func frameNames(stack []Frame) (names []string) {
	for _, f := range stack {
		names = append(names, nameIn(f))
	}
	return names
}

// TestContract_4_1_EBPFProfilerFrames: a frame with a mapping of the eBPF profiler keeps its file ID and
// address, whether kernelsym or the profiler names it: backends identify frames by these two.
func TestContract_4_1_EBPFProfilerFrames(t *testing.T) {
	type id struct {
		file    string
		address uint64
	}
	names := make(map[id]string)
	for name, pd := range producers(t) {
		if !strings.HasPrefix(name, "ebpf_profiler") {
			continue
		}
		for _, mode := range producerModes {
			if !mode.opts.All && name == "ebpf_profiler_symbolized" {
				continue // its names are not ours: it looks frames up at their return addresses
			}
			came := rewritetest.Samples(pd)
			got, _ := runWith(t, mode.opts, copied(pd), producersSnapshot(t))
			for i := range got {
				for k, f := range kernelFrames(got[i].Stack) {
					in := kernelFrames(came[i].Stack)[k]
					if in.Mapping == nil || f.Mapping.File == "odd_module" {
						continue // of BPF; of a module that the profiler has no build id of
					}
					require.Equal(t, id{in.Mapping.FileID, in.Address}, id{f.Mapping.FileID, f.Address}, "%s, %s", name, mode.name)
					at := id{f.Mapping.FileID, f.Address}
					if has, ok := names[at]; ok {
						require.Equal(t, has, nameIn(f))
					}
					names[at] = nameIn(f)
				}
			}
		}
	}
	assert.Greater(t, len(names), 15)
}

// TestProducersTwice: a second kernelsym, with any settings, agrees with the names that the first one gave.
func TestProducersTwice(t *testing.T) {
	for name, pd := range producers(t) {
		for _, first := range producerModes {
			for _, second := range producerModes {
				came := rewritetest.Samples(pd)
				out := copied(pd)
				between, _ := runWith(t, first.opts, out, producersSnapshot(t))
				got, _ := runWith(t, second.opts, out, producersSnapshot(t))
				for i := range got {
					for k, f := range between[i].Stack {
						if nameIn(f) != nameIn(came[i].Stack[k]) {
							assert.Equal(t, f.Lines, got[i].Stack[k].Lines, "%s: %s, then %s", name, first.name, second.name)
						}
					}
				}
			}
		}
	}
}

// mergeable returns the producers that MergeTo can merge: it leaves an index in the value of an
// attribute as it is, which then is one of another string (v0.164.0).
func mergeable(t *testing.T) map[string]pprofile.Profiles {
	all := producers(t)
	delete(all, "string_value_strindex")
	return all
}

// TestProducersMerged: in a batch of two producers' messages, each frame gets the same name as alone.
func TestProducersMerged(t *testing.T) {
	all := mergeable(t)
	for _, mode := range producerModes {
		alone := make(map[string][]rewritetest.Sample)
		for name, pd := range all {
			alone[name], _ = runWith(t, mode.opts, copied(pd), producersSnapshot(t))
		}
		for name := range all {
			for other := range all {
				batch := copied(all[name])
				require.NoError(t, copied(all[other]).MergeTo(batch))
				got, _ := runWith(t, mode.opts, batch, producersSnapshot(t))
				require.Len(t, got, len(alone[name])+len(alone[other]))
				for i, want := range slices.Concat(alone[name], alone[other]) {
					assert.Equal(t, frameNames(want.Stack), frameNames(got[i].Stack), "%s and %s, %s", name, other, mode.name)
				}
			}
		}
	}
}

// mergedInto returns a message that was merged into one with these strings and nothing else.
func mergedInto(t *testing.T, strings []string, pd pprofile.Profiles) pprofile.Profiles {
	t.Helper()
	to := pprofile.NewProfiles()
	to.Dictionary().StringTable().FromRaw(strings)
	require.NoError(t, copied(pd).MergeTo(to))
	require.Error(t, rewritetest.CheckValid(to), "entry 0 is not the zero value")
	return to
}

// TestContract_1_6_Producers: whatever the producer, all names are correct in both readings.
func TestContract_1_6_Producers(t *testing.T) {
	for _, pd := range mergeable(t) {
		for _, mode := range producerModes {
			for _, strings := range [][]string{nil, {""}} {
				rewriteMerged(t, mode.opts, mergedInto(t, strings, pd), producersSnapshot(t))
			}
		}
	}
}

// TestContract_1_6_ProducersThatSendIt: the file mode of contrib's pprof receiver merges what the
// translator made into an empty message (receiver/pprofreceiver/internal/file_scraper.go,
// 0525e25). parca-agent's first messages had an empty string first, and no other empty entry
// (reporter/pprofile.go, 226a91c). The golden files show the frames with index 0 as the entry.
func TestContract_1_6_ProducersThatSendIt(t *testing.T) {
	all := producers(t)
	for name, pd := range map[string]pprofile.Profiles{
		"perf_pprof_receiver": mergedInto(t, nil, all["perf_pprof_not_symbolized"]),
		"parca_agent_before":  mergedInto(t, []string{""}, all["parca_agent"]),
	} {
		_, entry := rewritetest.Readings(pd)
		came := rewritetest.Samples(entry)
		var got [][]rewritetest.Sample
		text := ""
		for _, mode := range producerModes {
			out := copied(pd)
			counts := rewriteMerged(t, mode.opts, out, producersSnapshot(t))
			_, entry := rewritetest.Readings(out)
			got = append(got, rewritetest.Samples(entry))
			text += mode.name + ": " + countsText(counts) + "\n"
		}
		checkGolden(t, name, framesText(came, got)+text)
	}
}
