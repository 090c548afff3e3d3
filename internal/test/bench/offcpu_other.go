// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "errors"

// benchOffCPU needs Linux.
func benchOffCPU(int) error { return errors.ErrUnsupported }
