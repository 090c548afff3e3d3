// SPDX-License-Identifier: Apache-2.0

// Package backendtest has the tests of what others do with the profiles that kernelsym
// sends out: Elastic's exporter and the translator to pprof, as the contrib collector has
// them, get messages of the kernelstack receiver and of the OTel eBPF profiler.
//
// It is a module of its own so that those who build a collector with kernelsym do not get
// what these tests need. Its go.mod is kept by hand: go mod tidy fails at the tests of the
// profiler's dependencies, and the versions are those that go together.
package backendtest
