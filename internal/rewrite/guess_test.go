// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// A module below the core kernel, as on arm64.
const (
	low   = 0xffffffff80000000
	lowID = "cafe0000112233445566778899aabbccddeeff00"
)

// A question is a message whose result may depend on where the kernel is.
type question struct {
	name    string
	message func(base uint64) pprofile.Profiles // for a base that is guessed
	never   bool                                // not even a local sender gets an answer
}

// questions returns all known ways to ask.
func questions(t *testing.T) []question {
	stack := func(frames ...Frame) *rewritetest.Message {
		return rewritetest.NewMessage().Profile(nil, "scope").Sample(frames...)
	}
	app := Frame{Address: 1, Type: "native", Mapping: &Mapping{File: "app"}}
	core := &Mapping{File: "vmlinux", Limit: 1 << 62}
	first := Frame{Address: 0x100, Type: "kernel", Mapping: &Mapping{File: "ext4", BuildID: ext4ID, Limit: 1 << 20}} // whose role decides
	return []question{
		{"an address", func(base uint64) pprofile.Profiles { return stack(Frame{Address: base + offA + 4}).Profiles }, false},
		{"an address in a mapping with ids", func(base uint64) pprofile.Profiles {
			return stack(Frame{Address: base + offA + 4, Mapping: &Mapping{File: "x.ko", BuildID: ext4ID}}).Profiles
		}, false},
		{"an address of BPF code", func(base uint64) pprofile.Profiles {
			return stack(Frame{Address: base - text + slot + 4, Type: "kernel"}).Profiles
		}, false},
		{"a named address, and whether a pack has lines", func(base uint64) pprofile.Profiles {
			return stack(withName(Frame{Address: base + offA + 4}, "a")).Profiles
		}, false},
		{"whether the time of an address matters", func(base uint64) pprofile.Profiles {
			m := stack(Frame{Address: base + 0x40, Type: "kernel"})
			timed(m, nowBoot+int64(1e12))
			return m.Profiles
		}, false},
		{"an address of entry code, and the role of the next frame", func(base uint64) pprofile.Profiles {
			return stack(app, Frame{Address: base + entryText - text + 8, Type: "kernel"}, first).Profiles
		}, false},
		{"the same, where index 0 has two meanings", func(base uint64) pprofile.Profiles {
			return merged(t, stack(app, Frame{Address: base + entryText - text + 8}, first))
		}, false},
		{"the file ID of a load", func(base uint64) pprofile.Profiles {
			return stack(Frame{Address: offA + 4, Type: "kernel", Mapping: &Mapping{FileID: buildid.LoadedFileID(kernelID, base)}}).Profiles
		}, false},
		{"the file ID of a load, with the build id", func(base uint64) pprofile.Profiles {
			return stack(Frame{Address: offA + 4, Type: "kernel", Mapping: &Mapping{BuildID: kernelID, FileID: buildid.LoadedFileID(kernelID, base)}}).Profiles
		}, false},
		{"the file ID of a BPF function's load", func(base uint64) pprofile.Profiles {
			id := buildid.LoadedFileID("bpf_prog_1_f:256", base-text+slot)
			return stack(Frame{Address: 4, Type: "kernel", Mapping: &Mapping{File: "[bpf]", FileID: id}}).Profiles
		}, false},
		{"a relative address that wraps around", func(base uint64) pprofile.Profiles {
			return stack(app, Frame{Address: -base, Type: "kernel", Mapping: core}, first).Profiles
		}, true},
		{"the distance from a module to entry code", func(base uint64) pprofile.Profiles {
			in := &Mapping{File: "low", BuildID: lowID, Limit: 1 << 62}
			return stack(app, Frame{Address: base + entryText - text + 8 - low, Type: "kernel", Mapping: in}, first).Profiles
		}, true},
	}
}

// reply returns everything that a sender can learn from metrics and from requests for packs.
func reply(opts rewrite.Options, known rewrite.Sources, pd pprofile.Profiles) (result rewrite.Result, clockOff int64) {
	r := rewrite.New(opts)
	result = r.Rewrite(pd, known)
	result.Profiles = pprofile.Profiles{}
	return result, r.ClockOff()
}

// TestContract_2_6_GuessesTellNothing verifies that the counts of a message, and the packs requested for it,
// do not depend on whether it guesses right where code is loaded; and that they do if absolute addresses are
// looked up.
func TestContract_2_6_GuessesTellNothing(t *testing.T) {
	guessesTellNothing(t, markedSnapshot(t, marks()).Core(), true)
}

// TestContract_10_5_GuessesTellNothing verifies the same while the kernel is located, with the default setting.
func TestContract_10_5_GuessesTellNothing(t *testing.T) {
	guessesTellNothing(t, markedSnapshot(t, marks()).Core().AsLocated(), false)
}

func guessesTellNothing(t *testing.T, core *timeline.Image, fromLocal bool) {
	t.Helper()
	functions := timeline.NewBuilder(remember)
	loadAt(functions, "bpf_prog_1_f", slot, 0x100, timeline.Always.From)
	module := timelinetest.NewImage(t, timelinetest.Text{
		Name: "low", Origin: timeline.OriginModule, BuildID: lowID, Base: low, Start: low, End: low + 0x100,
	}, timelinetest.Symbol{Name: "low_read"})
	known := knownAt(t, functions)
	known.Snapshot = fixed(timeline.NewSnapshot(append([]*timeline.Table{timeline.NewTable(core)},
		append(markedSnapshot(t, marks()).Tables()[1:], functions.Table(), timeline.NewTable(module))...)...))
	known.Packs = testPacks(t)
	type answer struct {
		result   rewrite.Result
		clockOff int64
	}
	ask := func(q question, base uint64, opts rewrite.Options, local bool) (a answer) {
		known.Local = local
		a.result, a.clockOff = reply(opts, known, q.message(base))
		return a
	}
	for _, q := range questions(t) {
		for _, opts := range []rewrite.Options{
			{}, {All: true}, {Addresses: rewrite.KeepAddresses}, {Addresses: rewrite.HideAddresses}, {Label: true}, withPacks,
		} {
			opts.AbsoluteFromLocal, opts.History = fromLocal, withHistory.History
			for _, wrong := range []uint64{text - 1<<21, text + 1<<21, text + 1<<29} {
				assert.Equal(t, ask(q, wrong, opts, false), ask(q, text, opts, false), "%s %+v %#x", q.name, opts, wrong)
			}
		}
		opts := withPacks
		opts.AbsoluteFromLocal, opts.History = fromLocal, withHistory.History
		if right, wrong := ask(q, text, opts, true), ask(q, text+1<<29, opts, true); q.never {
			assert.Equal(t, wrong, right, q.name)
		} else {
			assert.NotEqual(t, wrong, right, q.name)
		}
	}
}
