// SPDX-License-Identifier: Apache-2.0

// Package profilertest has the tests that run the OTel eBPF profiler, as the receiver of a
// collector, in kernels that are locked down: what stands in docs/platforms/lockdown.md of it.
//
// It is a module of its own so that those who build a collector with kernelsym do not get the
// profiler. Its go.mod is kept by hand: go mod tidy fails at the tests of the profiler's
// dependencies.
package profilertest
