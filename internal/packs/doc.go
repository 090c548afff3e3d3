// SPDX-License-Identifier: Apache-2.0

// Package packs keeps packs in memory: the files with the source lines, inlined functions and
// symbols (package pack) of the kernel and module builds that are in use.
//
// Callers tell a [Store] which builds are in use, and never wait for it. In the background it
// looks for their packs in a directory and, if it has a URL, fetches the packs that are missing
// there. The open packs form an immutable set behind one atomic pointer.
//
//	Use ──► queue ──┬── next ──► directory ──┬──► library ──► View
//	          ▲     └── next ──► URL ────────┤
//	          └──────────────────── finish ──┘
//
// queue.go says what becomes of a request, and fair.go whose turn it is. One goroutine reads the
// directory (directory.go), a few fetch from the URL (fetch.go, pace.go) and keep what they
// fetch in the directory (keep.go), and one publishes the packs in the library (publish.go).
//
// # Glossary
//
//   - request: for the pack of a build in use that has no open pack, or whose file must be checked
//     again.
//   - origin: the directory, or the URL.
//   - refused: a pack that was found and is not used, or could not be fetched.
//   - idle: a pack that has not been used for a minute. Only idle packs make room for others:
//     if all are in use, one more would only cause them to be read again and again.
//
// # Input from outside
//
// A build id comes from a message, so it cannot be trusted: only a string that [pack.IsBuildID]
// accepts becomes part of a path or URL (contract 10.3). The number of requests, the number of
// fetches at a time and per second, and the size of a fetched pack are bounded. The files in
// the directory are trusted like configuration, so only root or the user of this process may be
// able to write to it. Every file is checked before it is used.
package packs
