// SPDX-License-Identifier: Apache-2.0

// Package symtab holds the symbols of one image of kernel code: which addresses belong to which function,
// and the name of that function. It knows nothing about time; package timeline does.
//
// A [Builder] makes a [Text] from the lines of /proc/kallsyms, or a pack's symbols. A Text is immutable and
// safe for concurrent use. The package is pure: it opens no file and makes no system call.
//
// # Glossary
//
//   - symbol: a name and the addresses [Start, End) that it covers (contract 3.1, 3.2).
//   - bound: an address at which the symbol before it ends although no name begins there, such as the
//     padding before a function or the end of a section.
//   - alias: a further name at the address of a symbol (contract 3.3).
//   - base: the address that the offsets of an image count from.
//   - front coding: storing a name as the length of the prefix that it shares with the name before it, and
//     the rest.
//
// # In memory
//
// Symbols are sorted by address and numbered. The number is the index into an array with six bytes for each
// symbol: a 4-byte offset from the image's start and a 2-byte size. A bucket index, with one entry for
// every 2^shift bytes of text, says at which symbol a search starts, so that a lookup touches one index entry
// and the few symbols of one bucket. Names are front coded in blocks of 16, and become Go strings only when
// they are asked for.
package symtab
