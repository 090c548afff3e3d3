// SPDX-License-Identifier: Apache-2.0

// Package regularfile opens files that hold data, and no pipes or devices.
package regularfile

import (
	"errors"
	"io/fs"
	"os"
)

// ErrOther is returned for a directory, pipe, socket or device.
var ErrOther = errors.New("not a regular file")

// Open opens a regular file for reading. It does not open a file of another kind: opening a named pipe blocks until there is
// a writer. The error names the file.
func Open(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrOther}
	}
	return os.Open(name)
}
