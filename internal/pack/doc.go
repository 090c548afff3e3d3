// SPDX-License-Identifier: Apache-2.0

// Package pack implements the format of packs. A pack is a file with the debug information
// about the code of one build of the core kernel, or of one module: the inlined functions,
// source files and lines, and the symbols.
//
// The package is pure. A [Writer] makes a pack, [Read] checks one and returns it as a [Pack],
// which is immutable and safe for concurrent use. A look-up reads a few records, allocates
// nothing, and takes a bounded number of steps, whatever the file contains.
//
// # Glossary
//
//   - pack address: an address of 32 bits. In the core kernel it is relative to the lower of
//     _text and _stext, in a module to the start of its text.
//   - row: the addresses, up to the next row, whose code came from one source line.
//   - node: a function at the place where it was inlined. Its parent is the node that it was
//     inlined into; a node without a parent is a function with code of its own.
//   - chain: a node, its parent, and so on.
//
// # Layout
//
// docs/dev/pack-format.md specifies the file byte by byte. Rows point to nodes, nodes to functions
// and to their parents, functions to names and files. Records are varints; an index has the
// offset of every few records. Nodes, functions and files are numbered in the order of their
// first use, so that small numbers and small differences are common.
package pack

// Ext is the extension of pack files: <build id>.kspack.
const Ext = ".kspack"

// KernelName is the name of the core kernel.
const KernelName = "vmlinux"

const (
	magic   = "\x89KSPACK\n"
	version = 1

	rowGroup      = 16 // rows per entry of their index
	nodeGroup     = 4
	functionGroup = 4

	maxDepth  = 64      // nodes in a chain; the deepest seen in a kernel is 16
	maxString = 4 << 10 // bytes of a name or path
	maxRanges = 4 << 10 // thunks, or sections of code
	maxNumber = 1<<31 - 1
)

// section numbers the parts of a file, in the order in which they appear.
type section int

const (
	sectionInfo section = iota
	sectionStrings
	sectionFiles
	sectionFunctions
	sectionFunctionIndex
	sectionNodes
	sectionNodeIndex
	sectionRows
	sectionRowIndex
	sectionSymbols
	numSections
)

// The counts in the header.
const (
	countFunctions = iota
	countNodes
	countRows
	countSymbols
	numCounts
)

// The header has the magic, the version, a checksum of everything that follows, the lengths of
// the sections, and the counts.
const (
	versionAt  = len(magic)
	checksumAt = versionAt + 4
	lengthsAt  = checksumAt + 4
	countsAt   = lengthsAt + 4*int(numSections)
	headerLen  = countsAt + 4*numCounts
)
