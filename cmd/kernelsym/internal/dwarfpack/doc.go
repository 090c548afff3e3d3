// SPDX-License-Identifier: Apache-2.0

// Package dwarfpack makes the rows and nodes of a pack of a kernel's debug information
// (DWARF 2 to 5): which functions were inlined at an address, and which source line it
// came from.
//
// The debug information is read unit by unit and not kept. In a unit, entries that do not
// describe code are passed over. The sections that units refer to at random (abbreviations,
// strings, lists of ranges) are in memory while a file is read: 15 MB of a vmlinux's 250 MB.
// What cannot be read is refused: an error names section, offset and form. The work is
// bounded by the size of the sections, whatever they say.
//
// # Glossary
//
//   - unit: what the compiler made of one source file.
//   - entry: a debugging information entry (DIE).
//   - slot: the number under which the value of an attribute is kept while it is needed.
//   - span: addresses and what is there, as an index into something.
//   - run: rows of one unit without a gap.
//
// # Which answer
//
// A function at an address is the innermost entry whose ranges hold it; of entries that
// overlap without one being in the other, the last of a unit, and the first unit. The line
// is that of the last row of the line table at or below the address in its sequence.
// Ranges of inlined functions count, not DW_AT_entry_pc; a row at the end of its sequence
// does not.
package dwarfpack
