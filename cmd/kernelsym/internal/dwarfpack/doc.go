// SPDX-License-Identifier: Apache-2.0

// Package dwarfpack makes the rows and nodes of a pack from a kernel's debug information (DWARF 2
// to 5). They show which functions were inlined at an address, and which source line it came from.
//
// The package reads the debug information unit by unit, and does not keep it. In a unit, it skips
// entries that do not describe code. Sections that units refer to at random (abbreviations,
// strings, lists of ranges) are in memory while a file is read: 15 MB of a vmlinux's 250 MB. The
// package refuses what it cannot read, with an error that names section, offset and form. The work
// is bounded by the size of the sections, whatever they contain.
//
// # Glossary
//
//   - unit: what the compiler made of one source file.
//   - entry: a debugging information entry (DIE).
//   - slot: the number under which the value of an attribute is kept while it is needed.
//   - span: a range of addresses, with an index that stands for its contents.
//   - run: rows of one unit without a gap.
//
// # Which answer
//
// The function at an address is the innermost entry whose ranges contain the address. If entries
// overlap without nesting, the last one in a unit counts; if units overlap, the first unit counts.
// The line is that of the last row of the line table at or below the address in its sequence. The
// ranges of inlined functions count, DW_AT_entry_pc does not. A row at the end of its sequence does
// not count.
package dwarfpack
