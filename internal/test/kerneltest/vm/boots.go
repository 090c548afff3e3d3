// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// record passes on what the tests in a machine print, keeps what must be compared with other boots
// of the kernel, and writes the files that the tests hand out.
type record struct {
	io.Writer
	same, other []string
	dir         string          // for files; empty to drop them
	begun       map[string]bool // files that have been written to
	err         error           // the first error of a file
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
	if part, ok := strings.CutPrefix(line, kerneltest.FileOut); ok {
		r.keep(part)
		return len(text), nil
	}
	return r.Writer.Write(text)
}

// keep appends a part of a file to it.
func (r *record) keep(part string) {
	name, encoded, _ := strings.Cut(part, " ")
	if r.begun == nil {
		r.begun = make(map[string]bool)
	}
	if r.dir == "" || r.err != nil {
		return
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		err = os.MkdirAll(r.dir, 0o755)
	}
	var f *os.File
	if flags := os.O_CREATE | os.O_APPEND | os.O_WRONLY; err == nil {
		if !r.begun[name] { // it may be left over from an earlier machine
			flags |= os.O_TRUNC
			r.begun[name] = true
		}
		f, err = os.OpenFile(filepath.Join(r.dir, filepath.Base(name)), flags, 0o644)
	}
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Close())
	}
	r.err = err
}

// compare compares what the tests printed in several boots of a kernel.
func compare(boots []*record) error {
	first := boots[0]
	if len(boots) > 1 && len(first.same) == 0 {
		return errors.New("nothing was printed that can be compared between boots")
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
