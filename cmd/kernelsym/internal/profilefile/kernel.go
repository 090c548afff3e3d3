// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"errors"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// A KernelFrame is what a location says of kernel code.
type KernelFrame struct {
	Kernel bool   // it is of kernel code; the rest is empty if not
	Name   string // of the innermost function, empty if it is not known
	Module string // empty if it is not known

	Address uint64 // as the location has it
	File    string // of the innermost function, empty if it is not known
	Line    int64
	Outer   []string // names of the functions that Name was inlined into, the innermost first

	Program *Program // that the code is of, nil if it is of none or that is not known
}

// A Program is what a location says of a BPF program.
type Program struct {
	ID        uint32
	Tag, Type string
}

// guestName is the function of the frame that the receiver "kernelstack" has for what a CPU did
// in a guest.
const guestName = "[guest]"

// IsGuest reports whether the frame stands for what a CPU did in a guest.
func (f *KernelFrame) IsGuest() bool { return f.Kernel && f.Address == 0 && f.Name == guestName }

// IsKernel reports whether a frame of a type and an address is of kernel code. Without a type
// it is if the address is in the kernel half of the address space, as profilers have it that
// know nothing of the kernel (contract 1.1).
func IsKernel(frameType string, addr uint64) bool {
	return frameType == "kernel" || frameType == "" && addr>>63 == 1 && addr < vsyscall
}

// vsyscall is a page of user space. Above it is nothing but perf's context markers.
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
		f := &frames[i]
		f.Kernel, f.Address = true, out.Address
		if len(out.Line) > 0 {
			line := out.Line[0]
			f.Name, f.File, f.Line = line.Function.Name, line.Function.Filename, line.Line
			for _, outer := range out.Line[1:] {
				f.Outer = append(f.Outer, outer.Function.Name)
			}
		}
		if out.Mapping != nil {
			f.Module = out.Mapping.File
		}
		if f.Program, err = c.program(loc); err != nil {
			errs = append(errs, err)
		}
	}
	return frames, errors.Join(errs...)
}

// program returns the program that a location is of, nil if it names none.
func (c *converter) program(loc pprofile.Location) (*Program, error) {
	labels, err := c.labels(loc.AttributeIndices())
	text := func(key string) string { return strings.Join(labels[key], " ") }
	id, noID := strconv.ParseUint(text("bpf.program.id"), 10, 32)
	if err != nil || noID != nil {
		return nil, err
	}
	return &Program{ID: uint32(id), Tag: text("bpf.program.tag"), Type: text("bpf.program.type")}, nil
}
