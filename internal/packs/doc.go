// SPDX-License-Identifier: Apache-2.0

// Package packs keeps packs in memory: of the builds of kernels and modules that are in
// use, the files with their source lines, inlined functions and symbols (package pack).
//
// A [Store] is told which builds are in use, and never makes anybody wait. In the
// background it looks for their packs in a directory and, if it is told how, fetches what
// is missing there. What it has opened is an immutable set behind one atomic pointer.
//
// # Glossary
//
//   - wish: a build that is in use and of which no pack is open, or whose file is to be looked
//     at again.
//   - look: to look for a pack in the directory, or whether its file was replaced.
//   - refused: a pack that was found and is not used, or could not be fetched.
//   - idle: a pack that nobody has used for a minute. Only idle packs make room for
//     others: if all are in use, one more would only have them read again and again.
//
// # What comes from outside
//
// A build id comes from a message, so it is a stranger's word: only what
// [pack.IsBuildID] allows becomes part of a path or URL (contract 10.3). The number of
// wishes, of fetches at a time and in a second, and the size of what is fetched are
// bounded. What lies in the directory is trusted like configuration, so nobody but its owner
// may be able to write to it. Every file is checked before it is used.
package packs
