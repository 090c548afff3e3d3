// SPDX-License-Identifier: Apache-2.0

// Package seccomptest has the tests that run the sources within the default seccomp profiles
// of container runtimes: what stands in docs/platforms/seccomp.md.
//
// It is a module of its own so that those who build a collector with kernelsym do not get the
// runtimes.
package seccomptest
