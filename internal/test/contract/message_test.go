// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// profilerScope is the scope of the OTel eBPF profiler.
const profilerScope = "go.opentelemetry.io/ebpf-profiler"

// message returns a random message about the world: stacks share frames, samples share stacks, and some
// frames and stacks are unused. unix converts the kernel's clock to the wall clock.
func (w *world) message(unix func(boot int64) uint64) pprofile.Profiles {
	r, m := w.r, rewritetest.NewMessage()
	pool := make([]rewritetest.Frame, 6+r.Intn(20))
	for i := range pool {
		pool[i] = w.frame()
	}
	stacks := make([][]rewritetest.Frame, 2+r.Intn(9))
	for i := range stacks {
		stacks[i] = w.stack(pool)
	}
	for range r.Intn(4) {
		m.Location(w.frame())
		m.Stack(w.stack(pool)...)
	}
	for range 1 + r.Intn(4) {
		host := []string{"this", "this", "this", "other"}[r.Intn(4)]
		scope := []string{"", "perf", "parca", "ebpf-profiler/x", profilerScope, profilerScope + "/v1", "./ebpf-profiler", "parca-agent"}[r.Intn(8)]
		m.Profile(map[string]any{"host.name": host}, scope)
		if r.Intn(4) != 0 {
			m.LastProfile().SetTime(pcommon.Timestamp(unix(w.moment())))
			m.LastProfile().SetDurationNano(uint64(r.Intn(3)*r.Intn(2000)) * uint64(ms))
		}
		if w.serial%4 == 3 { // as good as random
			m.LastProfile().SetOriginalPayloadFormat("linux_perf")
			m.LastProfile().OriginalPayload().FromRaw([]byte("PERFILE2"))
		}
		for range r.Intn(8) {
			m.Sample(stacks[r.Intn(len(stacks))]...)
			w.sample(m, unix)
		}
	}
	for range r.Intn(4) {
		w.duplicate(m.Profiles.Dictionary())
	}
	return m.Profiles
}

// sample fills in the last sample. Its attribute makes it unique.
func (w *world) sample(m *rewritetest.Message, unix func(boot int64) uint64) {
	r, s := w.r, m.LastSample()
	w.serial++
	s.AttributeIndices().Append(m.Attribute("sample", w.serial))
	if r.Intn(3) == 0 {
		m.Profiles.Dictionary().LinkTable().AppendEmpty().SetSpanID(pcommon.SpanID{byte(w.serial), 1})
		s.SetLinkIndex(int32(m.Profiles.Dictionary().LinkTable().Len() - 1))
	}
	stamps := r.Intn(5)
	near := w.moment()
	for range stamps {
		if r.Intn(2) == 0 {
			near = w.moment()
		}
		near += int64(r.Intn(6)) * ms
		s.TimestampsUnixNano().Append(unix(near))
	}
	values := []int{stamps, stamps, stamps, 0, 1, 2}[r.Intn(6)]
	s.Values().FromRaw(nil)
	for range values {
		s.Values().Append(int64(r.Intn(1 << 30)))
	}
}

// duplicate appends a copy of an entry to a table.
func (w *world) duplicate(d pprofile.ProfilesDictionary) {
	switch r := w.r; r.Intn(4) {
	case 0:
		d.LocationTable().At(r.Intn(d.LocationTable().Len())).CopyTo(d.LocationTable().AppendEmpty())
		d.StackTable().AppendEmpty().LocationIndices().Append(int32(d.LocationTable().Len() - 1))
	case 1:
		d.StackTable().At(r.Intn(d.StackTable().Len())).CopyTo(d.StackTable().AppendEmpty())
	case 2:
		d.MappingTable().At(r.Intn(d.MappingTable().Len())).CopyTo(d.MappingTable().AppendEmpty())
	case 3:
		d.StringTable().Append(d.StringTable().At(r.Intn(d.StringTable().Len())))
	}
}

// stack returns a stack of frames from a pool. Some stacks exercise the distinctions that sections 2.3 and
// 3.5 of the contract make.
func (w *world) stack(pool []rewritetest.Frame) (stack []rewritetest.Frame) {
	r := w.r
	pick := func() rewritetest.Frame { return pool[r.Intn(len(pool))] }
	for range r.Intn(5) {
		stack = append(stack, pick())
	}
	if w.core == nil || !w.traces && r.Intn(2) == 0 {
		return stack
	}
	at := func(addr uint64) rewritetest.Frame {
		f := w.absolute(addr)
		if r.Intn(3) == 0 { // a caller, or what the eBPF profiler sends
			f.Address++
		}
		return f
	}
	marks := w.core.Text.Landmarks
	kind := r.Intn(4)
	if w.traces {
		kind = 3
	}
	switch kind {
	case 0:
		entry := marks.Entry.Start + uint64(r.Int63n(int64(marks.Entry.End-marks.Entry.Start)))
		stack = append(stack, at(entry), at(w.symbolStart()))
	case 1:
		stack = append(stack, at(marks.Fred.Start+uint64(r.Intn(33))), at(w.symbolStart()))
	case 2:
		name := thunks[r.Intn(len(thunks))]
		for _, s := range w.core.symbols {
			if s.name == name {
				stack = append(stack, at(s.start+uint64(r.Intn(17))), at(w.symbolStart()))
			}
		}
	case 3:
		for _, m := range w.images {
			if m.Origin == timeline.OriginTrampoline && r.Intn(2) == 0 {
				if r.Intn(2) == 0 {
					stack = nil // it is the leaf
				}
				patched := w.startOf(m.traced) + []uint64{5, 9, 8, 12, 4}[r.Intn(5)]
				return append(stack, at(m.start+uint64(r.Intn(0x300))), at(patched), pick())
			}
		}
	}
	return append(stack, pick())
}

// startOf returns the first byte of a function, sometimes of another one.
func (w *world) startOf(f modelTraced) uint64 {
	images := slices.Clone(w.images)
	if w.core != nil {
		images = append(images, w.core)
	}
	for _, m := range images {
		for i := range m.symbols {
			if w.r.Intn(4) != 0 && f.is(modelHit{image: m, symbol: &m.symbols[i]}) {
				return m.symbols[i].start
			}
		}
	}
	return w.symbolStart()
}

// symbolStart returns the first byte of a symbol.
func (w *world) symbolStart() uint64 {
	if m := w.image(); m != nil && len(m.symbols) > 0 {
		return m.symbols[w.r.Intn(len(m.symbols))].start
	}
	return slots
}

// frame returns a frame in one of the forms that producers use.
func (w *world) frame() rewritetest.Frame {
	r := w.r
	var f rewritetest.Frame
	switch r.Intn(12) {
	case 0:
		return rewritetest.Frame{ // a BPF frame of the eBPF profiler
			Address: uint64(r.Intn(64)), Type: "kernel", Lines: []rewritetest.Line{{Name: "bpf_prog_named", Line: 3}},
		}
	case 1:
		f = rewritetest.Frame{Address: 0x7f0000000000 + uint64(r.Intn(1<<16)), Mapping: &rewritetest.Mapping{File: "libc.so.6"}}
		f.Type = []string{"native", "ruby", "", "kernel"}[r.Intn(4)]
	case 2:
		f.Address = []uint64{0xffffffffff600400, ^uint64(0), ^uint64(0xfff), 1 << 63, 1<<63 - 1, 0}[r.Intn(6)]
	case 3:
		f = w.relative()
	default:
		f = w.absolute(w.address())
		f.Mapping = w.mapping(f.Address)
	}
	if f.Type == "" {
		f.Type = []string{"kernel", "kernel", "kernel", ""}[r.Intn(4)]
	}
	f.Lines = w.lines(f.Address)
	switch r.Intn(8) {
	case 0:
		f.Attributes = map[string]any{"thread.state": "R"}
	case 1:
		f.Attributes = map[string]any{keyFolded: r.Intn(2) == 0}
	}
	return f
}

// absolute returns a frame at an address, or at the one that the eBPF profiler sends for it.
func (w *world) absolute(addr uint64) rewritetest.Frame {
	return rewritetest.Frame{Address: addr - uint64(w.r.Intn(2)), Type: []string{"kernel", ""}[w.r.Intn(2)]}
}

// relative returns a frame whose mapping gives the image that its address counts from.
func (w *world) relative() rewritetest.Frame {
	r, m := w.r, w.image()
	if m == nil {
		return rewritetest.Frame{Address: 0x1000, Mapping: &rewritetest.Mapping{File: timeline.KernelName}}
	}
	f := rewritetest.Frame{Address: w.address() - m.base()}
	if len(m.symbols) > 0 {
		f.Address = w.in(&m.symbols[r.Intn(len(m.symbols))]) - m.base()
	}
	mapping := w.mappingOf(m)
	mapping.Start, mapping.Limit = 0, 0
	switch r.Intn(4) {
	case 0:
		mapping.Start, mapping.Limit = m.start, m.end
	case 1:
		mapping.Offset = 0x1000
	}
	f.Mapping = &mapping
	return f
}

// mappingOf returns a mapping that names an image in one of several ways.
func (w *world) mappingOf(m *modelImage) rewritetest.Mapping {
	mapping := rewritetest.Mapping{File: m.Name(), Start: m.start, Limit: m.end}
	if !m.isText() && m.Name() != "" {
		mapping.File, mapping.FileID = "[bpf]", buildid.ContentFileID(m.content())
	}
	if !m.isText() {
		return mapping
	}
	switch n := w.r.Intn(5); {
	case n < 2:
		mapping.BuildID, mapping.FileID = m.BuildID(), m.Text.FileID
	case n == 2:
		mapping.BuildID = m.BuildID()
	case n == 3:
		mapping.FileID = m.Text.FileID
	}
	return mapping
}
