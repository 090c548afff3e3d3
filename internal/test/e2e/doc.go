// SPDX-License-Identifier: Apache-2.0

// Package e2e has the tests that need what `make build` makes, or that compare
// the names with those of others: the kernel itself and perf.
package e2e
