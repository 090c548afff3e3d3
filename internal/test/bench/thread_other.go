// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "time"

// thread returns the elapsed time, for lack of anything better.
func thread() time.Duration { return wall() }
