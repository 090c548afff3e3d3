// SPDX-License-Identifier: Apache-2.0

// Package ledger turns events, lists and losses into lifetimes (contract 5.1, 5.2).
//
// A source of images receives events: an image was loaded, an image was unloaded. Some events are lost, and while they
// are, images come and go unseen. A list of the loaded images, read after a loss, settles what became of the images
// that were loaded before it.
//
//	events  ──────────┤ lost ├──────────────────
//	list                         [began … ended]
//	A       ═══════════════════════════════════   the list shows it: loaded throughout
//	B       ══════════┤                           the list does not: certainly loaded until the loss began
//	C                                   ╞══════   only the list shows it: certainly loaded since it was read
//
// A loss is blind time in any case: an image may have been loaded and unloaded within it. Until a list has settled a
// loss, nothing is certain after the loss began. If more events are lost while the list is being read, that list cannot
// settle a loss which they may be part of, and another one is needed.
//
// The kernel reports a loss late, with the next event of the same CPU. By then, the source may have drawn conclusions
// from two events between which others were missing, such as the program of a function. [Ledger.Missed] takes these
// conclusions back.
//
// The drawings in testdata are tests.
//
// All instants are in nanoseconds, on the clock of the source's events.
package ledger
