// SPDX-License-Identifier: Apache-2.0

// Package seccomptest tests what docs/dev/seccomp.md says: it runs the sources within the
// default seccomp profiles of container runtimes.
//
// It is a module of its own so that a collector built with kernelsym does not depend on the
// runtimes.
package seccomptest
