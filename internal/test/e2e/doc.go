// SPDX-License-Identifier: Apache-2.0

// Package e2e has the tests that need the binaries of `make build`, or that compare names with
// other sources of names: the kernel itself and perf.
package e2e
