package profilefile

import (
	"errors"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// A KernelFrame is what a location says of kernel code.
type KernelFrame struct {
	Kernel bool   // it is of kernel code; the rest is empty if not
	Name   string // of the innermost function, empty if it is not known
	Module string // empty if it is not known
}

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
		frameType, err := c.frameType(loc)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !IsKernel(frameType, loc.Address()) {
			continue
		}
		out, err := c.location(int32(i))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		frames[i].Kernel = true
		if len(out.Line) > 0 {
			frames[i].Name = out.Line[0].Function.Name
		}
		if out.Mapping != nil {
			frames[i].Module = out.Mapping.File
		}
	}
	return frames, errors.Join(errs...)
}
