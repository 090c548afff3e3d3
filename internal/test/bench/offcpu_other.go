// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"
	"io"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// benchOffCPU needs Linux.
func benchOffCPU(int) error { return errors.ErrUnsupported }

// benchVolume needs Linux.
func benchVolume(*timeline.Image) error { return errors.ErrUnsupported }

// benchOffCPUCost needs Linux.
func benchOffCPUCost(string, string, int) error { return errors.ErrUnsupported }

// runSwitches needs Linux.
func runSwitches(int, io.Reader) error { return errors.ErrUnsupported }
