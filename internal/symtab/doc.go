// SPDX-License-Identifier: Apache-2.0

// Package symtab holds what is known about kernel code: which addresses belong
// to which function of which module, and when.
//
// It is pure: it opens no file and makes no system call. Sources (the core
// kernel's symbol list, loaded modules, BPF programs) record [Image]s in a [History] and
// publish the [Table]s that it makes; readers look addresses up in a [Snapshot] of all
// tables, with [Snapshot.At]. Everything but the builders and History is immutable and
// safe for concurrent use.
//
// # Certain or nothing
//
// Two ideas decide what an address was. An image has an exact extent and a lifetime: the
// interval in which it certainly was there. And a table knows its blind time: when images
// may have come or gone unseen. An address is answered for an interval by the image whose
// lifetime holds all of it, if no other image had the address at about that time;
// otherwise there is a reason and no answer. Nothing is weighed (contract 5).
//
// # Glossary
//
//   - image: a piece of kernel code that is loaded and unloaded as one: the core
//     kernel ("vmlinux"), a module, a BPF function, a trampoline, a page of code.
//   - symbol: a name and the addresses [Start, End) it covers.
//   - bound: an address at which the symbol before it ends, although nothing
//     that can be named begins there (padding before a function, the end of a
//     section).
//   - alias: a further name at a symbol's address.
//   - base: the address that a module's offsets count from.
//   - front coding: storing a name as the length of the prefix it shares with
//     the name before it, and the rest.
//
// # Layout of an image's symbols
//
// Symbols are sorted by address and numbered. The number is the index into an
// array of six bytes a symbol, a 4-byte offset from the image's start and a
// 2-byte size. A bucket index, one entry for every 2^shift bytes of text, says at
// which symbol the search starts, so that a look-up touches one index entry and
// the few symbols of one bucket. Names are front coded in blocks of 16 and become
// Go strings only when asked for.
//
// # Layout of images in time
//
// Several images can have had an address, one after the other. A table divides
// the addresses into segments, each of which the same images have had, and holds
// those in a tree that shares what did not change with the table before: of
// 50,000 BPF functions, recording one more copies a leaf and the nodes above it.
// A segment knows the image that is there now, which is the answer to nearly all
// look-ups, and those that were, in the order of their lifetimes, so that no look-up
// reads all of the history.
package symtab
