// Package symtab holds what is known about kernel code: which addresses belong
// to which function of which module, and when.
//
// It is pure: it opens no file and makes no system call. Sources (the core
// kernel's symbol list, loaded modules, BPF programs) build [Module]s with a
// [Builder], or record [Function]s in [Functions], put them in a [Table] and
// publish it; readers look addresses up in a [Snapshot] of all tables. Everything
// but the builders and Functions is immutable and safe for concurrent use.
//
// # Glossary
//
//   - symbol: a name and the addresses [Start, End) it covers.
//   - bound: an address at which the symbol before it ends, although nothing
//     that can be named begins there (padding before a function, the end of a
//     section).
//   - alias: a further name at a symbol's address.
//   - module: a piece of kernel code that is loaded, identified and unloaded as
//     one: the core kernel ("vmlinux") or a loadable module.
//   - function: here, a piece of code with one symbol that is loaded and unloaded
//     by itself, as those of BPF programs are.
//   - owner: the module or function that has an address at some time.
//   - base: the address that a module's offsets count from.
//   - front coding: storing a name as the length of the prefix it shares with
//     the name before it, and the rest.
//
// # Layout of a module's symbols
//
// Symbols are sorted by address and numbered. The number is the index into an
// array of six bytes a symbol, a 4-byte offset from the module's start and a
// 2-byte size. A bucket index, one entry for every 2^shift bytes of text, says at
// which symbol the search starts, so that a lookup touches one index entry and
// the few symbols of one bucket. Names are front coded in blocks of 16 and become
// Go strings only when asked for.
//
// # Layout of owners in time
//
// An address can have had several owners, one after the other. A table divides
// the addresses into segments, each of which has had the same owners, and holds
// those in a tree that shares what did not change with the table before: of
// 50,000 BPF functions, recording one more copies a leaf and the nodes above it.
// A segment knows the owner that is there, which is the answer to nearly all
// lookups, and those that were, in the order of their time, so that no lookup has
// to go through the history.
package symtab
