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

// KernelFrames returns the frame of each location of a message. A frame is the
// kernel's if its attribute profile.frame.type says so. The error wraps
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
		typ := labels["profile.frame.type"]
		if len(typ) == 0 || typ[0] != "kernel" {
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
