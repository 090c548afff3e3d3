// SPDX-License-Identifier: Apache-2.0

// Package profilertest tests what docs/dev/lockdown.md says about the OTel eBPF profiler: it
// runs the profiler, as the receiver of a collector, in kernels that are locked down.
//
// It is a module of its own so that a collector built with kernelsym does not depend on the
// profiler. Its go.mod is maintained by hand: go mod tidy fails on the tests of the profiler's
// dependencies.
package profilertest
