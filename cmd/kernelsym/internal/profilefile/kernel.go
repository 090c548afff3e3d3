// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symbolize"
)

// A KernelFrame describes the kernel code at a location.
type KernelFrame struct {
	Kernel bool   // whether it is kernel code; if not, the rest is empty
	Name   string // of the innermost function; empty if unknown
	Module string // empty if unknown

	Address uint64 // address of the location
	File    string // of the innermost function; empty if unknown
	Line    int64
	Outer   []string // names of the functions that Name was inlined into, innermost first

	Program *Program // the BPF program of the code; nil if there is none or it is unknown
}

// A Program is the description of a BPF program in a location.
type Program struct {
	ID        uint32
	Tag, Type string
}

// HasName reports whether one of the functions has a name.
func (f *KernelFrame) HasName() bool {
	return f.Name != "" || slices.ContainsFunc(f.Outer, func(name string) bool { return name != "" })
}

// guestName is the function in the frame that the receiver "kernelstack" uses for time that a CPU
// spent in a guest.
const guestName = "[guest]"

// IsGuest reports whether the frame stands for time that a CPU spent in a guest.
func (f *KernelFrame) IsGuest() bool { return f.Kernel && f.Address == 0 && f.Name == guestName }

// IsKernel reports whether a frame of a type and an address is kernel code. A frame without a type
// is kernel code if its address is in the kernel half of the address space, because some profilers
// have no type for the kernel (see contract 1.1).
func IsKernel(frameType string, addr uint64) bool {
	return frameType == "kernel" || frameType == "" && addr>>63 == 1 && addr < vsyscall
}

// vsyscall is a page of user space. Only perf's context markers are above it.
const vsyscall = 0xffffffffff600000

// KernelFrames returns the frame of each location of a message. The error wraps
// ErrInvalid.
func KernelFrames(pd pprofile.Profiles) ([]KernelFrame, error) {
	c := converter{Merger: NewMerger(), dict: pd.Dictionary()}
	frames := make([]KernelFrame, c.dict.LocationTable().Len())
	var errs []error
	for i, loc := range c.dict.LocationTable().All() {
		labels, err := c.labels(loc.AttributeIndices())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !IsKernel(typeOf(labels), loc.Address()) {
			continue
		}
		out, err := c.location(int32(i))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		frames[i] = c.KernelFrame(out)
		if frames[i].Program, err = c.program(loc); err != nil {
			errs = append(errs, err)
		}
	}
	return frames, errors.Join(errs...)
}

// KernelFrame returns the frame of a location of the profile, without its program.
func (m *Merger) KernelFrame(loc *profile.Location) KernelFrame {
	if !IsKernel(m.types[loc], loc.Address) {
		return KernelFrame{}
	}
	f := KernelFrame{Kernel: true, Address: loc.Address}
	for i, line := range loc.Line {
		name := KernelName(loc, line.Function)
		if i > 0 {
			f.Outer = append(f.Outer, name)
			continue
		}
		f.Name, f.File, f.Line = name, line.Function.Filename, line.Line
	}
	if loc.Mapping != nil {
		f.Module = loc.Mapping.File
	}
	return f
}

// KernelName returns the name of a function in a location of kernel code. It is empty if the name
// is unknown: neither a placeholder is a name (see contract 1.2) nor a label.
func KernelName(loc *profile.Location, f *profile.Function) string {
	if symbolize.IsPlaceholder(f.Name) || loc.Mapping != nil && isLabel(f.Name, loc.Mapping.File) {
		return ""
	}
	return f.Name
}

// isLabel reports whether a name is an offset in a module. The processor's setting "unresolved:
// label" gives such names to frames without a name.
func isLabel(name, module string) bool {
	offset, ok := strings.CutPrefix(name, module)
	if !ok || module == "" || !strings.HasPrefix(offset, "+0x") && !strings.HasPrefix(offset, "-0x") {
		return false
	}
	_, err := strconv.ParseUint(offset[len("+0x"):], 16, 64)
	return err == nil
}

// program returns the BPF program of a location, or nil if the location names none.
func (c *converter) program(loc pprofile.Location) (*Program, error) {
	labels, err := c.labels(loc.AttributeIndices())
	text := func(key string) string { return strings.Join(labels[key], " ") }
	id, noID := strconv.ParseUint(text("bpf.program.id"), 10, 32)
	if err != nil || noID != nil {
		return nil, err
	}
	return &Program{ID: uint32(id), Tag: text("bpf.program.tag"), Type: text("bpf.program.type")}, nil
}
