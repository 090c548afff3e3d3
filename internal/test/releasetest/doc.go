// SPDX-License-Identifier: Apache-2.0

// Package releasetest tests what a release consists of. It builds the packages that
// .goreleaser.yaml describes, installs, starts and removes them; downloads the module by its
// version; and compares the versions that are written in several files.
//
// It is a separate module so that collectors built with kernelsym do not depend on what these
// tests need.
package releasetest
