// SPDX-License-Identifier: Apache-2.0

// Package timeline knows which image had an address, and when.
//
// A source (the core kernel, modules, BPF programs) records [Image]s in a [Builder], which makes a [Table] of
// what it knows at that moment. A [Snapshot] has the tables of all sources. It has one door,
// [Snapshot.At]: an address and an interval of time lead to the image that had the address for all of that
// interval, or to the [Reason] why none certainly had.
//
// The package is pure: it opens no file, reads no clock, and makes no system call. Everything but Builder is
// immutable and safe for concurrent use.
//
// # The one idea
//
// An image has exact addresses and a lifetime, the interval in which it was certainly loaded. A table also
// has blind time, in which images may have been loaded or unloaded unseen. Nothing is weighed: an answer is
// certain, or there is none.
//
//	address 0x1000   A ═══════╡      ╞═══ B ═════════
//	blind time              [········]
//	time             ─────1────2─────────3──────────►
//
//	at 1: A    at 2: none, unobserved    at 3: B
//
// # In memory
//
// No two loaded images have an address in common, so one tree finds them by their starts. Nearly all lookups end there:
// where an image was loaded before the interval began, all that had its addresses before were unloaded by then.
//
// The images that were unloaded are kept apart, in one tree for each class of lengths. Since an image is listed at one or
// two places, a load or unload costs the same however long the image is and however many others have had its addresses.
//
//	loaded     ══A══  ═B═  ════════C════════  ══D══       by the start
//
//	past       ─────────────┼───────────────────────┼─    long images, at each multiple of a large number that one covers:
//	                        E F                     F     F was loaded after E
//	           ──┼────┼────┼────┼────┼────┼────┼────┼─    shorter images, at the multiples of a smaller number
//	                  G H I                   K
//
// A tree shares the nodes that did not change with the table before: if one of 50,000 functions is loaded, a leaf and
// the nodes above it are copied. The nodes of the past have bounds, by which no lookup reads the whole history.
package timeline
