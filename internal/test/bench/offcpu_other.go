// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// benchOffCPU needs Linux.
func benchOffCPU(int) error { return errors.ErrUnsupported }

// benchVolume needs Linux.
func benchVolume(*timeline.Image) error { return errors.ErrUnsupported }
