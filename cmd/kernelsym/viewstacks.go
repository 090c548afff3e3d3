// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/flame"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// viewStacks is a flame graph and the figures for its heading.
type viewStacks struct {
	graph         flame.Graph
	sampleType    profile.ValueType
	duration      time.Duration
	all, kernel   int64 // values of all stacks, and of stacks with kernel frames
	frames, named int64 // kernel frames, once for each sample
}

// newViewStacks returns the stacks of the samples that a filter selects, or of all if it is nil.
func newViewStacks(m *profilefile.Merger, filter *viewFilter) *viewStacks {
	p := m.Profile()
	s := &viewStacks{duration: time.Duration(p.DurationNanos)}
	if len(p.SampleType) > 0 {
		s.sampleType = *p.SampleType[0]
	}
	for _, sample := range p.Sample {
		if filter == nil || filter.selects(sample) {
			s.add(sample, m.Code)
		}
	}
	return s
}

func (s *viewStacks) add(sample *profile.Sample, codeOf func(*profile.Location) rewrite.Code) {
	value := sample.Value[0]
	if value < 1 {
		return
	}
	var stack []flame.Frame
	inKernel := false
	for _, loc := range slices.Backward(sample.Location) {
		code := codeOf(loc)
		isKernel := code.IsKernel && !profilefile.IsGuest(&code)
		stack = append(stack, framesOf(loc, &code, isKernel)...)
		if isKernel {
			inKernel = true
			s.frames += value
			if code.HasName() {
				s.named += value
			}
		}
	}
	s.all += value
	if inKernel {
		s.kernel += value
	}
	s.graph.Add(stack, value)
}

// framesOf returns the functions of a location, the outermost first, or one frame without a
// name.
func framesOf(loc *profile.Location, code *rewrite.Code, isKernel bool) (frames []flame.Frame) {
	kind := flame.User
	for i, l := range slices.Backward(code.Lines) {
		name := l.Function
		if name == "" {
			continue
		}
		if isKernel {
			kind = kindOf(code.File, name)
		}
		if i < len(code.Lines)-1 {
			name += " (inlined)"
		}
		frames = append(frames, flame.Frame{Name: name, Owner: code.File, File: l.File, Kind: kind})
	}
	if len(frames) > 0 {
		return frames
	}
	if isKernel {
		kind = flame.Unnamed
	}
	return []flame.Frame{{Name: unnamed(loc), Owner: code.File, Kind: kind}}
}

// kindOf returns the kind of code that a function of a mapping belongs to. The OTel eBPF profiler
// has no mapping for BPF programs (see contract 2.5).
func kindOf(file, name string) flame.Kind {
	base := path.Base(file)
	switch {
	case file == "[bpf]" || strings.HasPrefix(file, "bpf_prog_") || file == "" && timeline.TagOf(name) != "":
		return flame.BPF
	case file == "" || strings.HasPrefix(file, "[kernel") || strings.HasPrefix(file, "[__builtin__") ||
		base == timeline.KernelName || strings.HasPrefix(base, timeline.KernelName+"-"):
		return flame.Core
	}
	return flame.Module
}

// unnamed returns the text drawn for a location without a name: its file and the offset in it. It
// leaves out an absolute address of the kernel, because the address means nothing to another
// machine. As a single frame, code of unknown origin also shows its total cost.
func unnamed(loc *profile.Location) string {
	addr, m := loc.Address, loc.Mapping
	if m == nil || m.File == "" {
		return printable.NoName
	}
	if m.Start <= addr && addr < m.Limit {
		addr += m.Offset - m.Start
	}
	if symbolize.InKernelHalf(addr) {
		return printable.NoName + " " + m.File
	}
	return fmt.Sprintf("%s %s+%#x", printable.NoName, path.Base(m.File), addr)
}

// heading returns the heading of the graph.
func (s *viewStacks) heading() string {
	text := s.value(s.all)
	if over := s.duration.Round(100 * time.Millisecond); over > 0 {
		text += " over " + over.String()
	}
	if s.kernel == 0 {
		return text + ", none in the kernel"
	}
	percent := func(part, of int64) float64 { return 100 * float64(part) / float64(of) }
	return text + fmt.Sprintf(", %.1f %% in the kernel; %.1f %% of the kernel frames have a name",
		percent(s.kernel, s.all), percent(s.named, s.frames))
}

// value returns a value with its unit.
func (s *viewStacks) value(v int64) string {
	return profilefile.Amount(rewrite.ValueType{Name: s.sampleType.Type, Unit: s.sampleType.Unit}, v)
}
