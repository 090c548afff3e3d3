// SPDX-License-Identifier: Apache-2.0

// Package scratch resizes slices whose memory is used again for each message.
package scratch

import "slices"

// Resized returns s with length n. Its content is undefined.
func Resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// Zeroed returns s with length n, all zero.
func Zeroed[T any](s []T, n int) []T {
	s = Resized(s, n)
	clear(s)
	return s
}

// Filled returns s with length n, all v.
func Filled[T any](s []T, n int, v T) []T {
	s = Resized(s, n)
	for i := range s {
		s[i] = v
	}
	return s
}
