// SPDX-License-Identifier: Apache-2.0

// Package backendtest tests what others do with the profiles that kernelsym sends out. Messages of
// the kernelstack receiver and of the OTel eBPF profiler go through Elastic's exporter and the
// translator to pprof, in the versions that the contrib collector has. Parca is asked what it stored
// of them, if KERNELSYM_PARCA names its binary, of version 0.28.0.
//
// It is a module of its own so that a collector built with kernelsym does not depend on what these
// tests need. Its go.mod is maintained by hand: go mod tidy fails on the tests of the profiler's
// dependencies, and the versions must fit together.
package backendtest
