package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// record passes on what the tests in a machine print, and keeps what is said for a
// comparison with other boots of the kernel.
type record struct {
	io.Writer
	same, other []string
}

// Write is called with a whole line.
func (r *record) Write(text []byte) (int, error) {
	line := strings.TrimSpace(string(text))
	if value, ok := strings.CutPrefix(line, kerneltest.SameInEachBoot); ok {
		r.same = append(r.same, value)
	}
	if value, ok := strings.CutPrefix(line, kerneltest.OtherInEachBoot); ok {
		r.other = append(r.other, value)
	}
	return r.Writer.Write(text)
}

// compare compares what the tests printed in several boots of a kernel.
func compare(boots []*record) error {
	first := boots[0]
	if len(boots) > 1 && len(first.same) == 0 {
		return errors.New("nothing was printed to be compared between boots")
	}
	var errs []error
	for _, r := range boots[1:] {
		if !slices.Equal(first.same, r.same) {
			errs = append(errs, fmt.Errorf("two boots differ:\n%v\n%v", first.same, r.same))
		}
		for _, value := range r.other {
			if slices.Contains(first.other, value) {
				errs = append(errs, fmt.Errorf("two boots have the same: %s", value))
			}
		}
	}
	return errors.Join(errs...)
}
