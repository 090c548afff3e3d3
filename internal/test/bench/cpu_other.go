// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "time"

// cpu returns the elapsed time, for lack of anything better.
func cpu() time.Duration { return wall() }
