// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "time"

// cpu is the time that passed, where nothing better is at hand.
func cpu() time.Duration { return wall() }
