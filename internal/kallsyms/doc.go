// SPDX-License-Identifier: Apache-2.0

// Package kallsyms reads the kernel's list of its symbols, /proc/kallsyms.
//
// [Scanner] reads its lines, [ParseCore] makes an image from the lines of the core kernel, and
// [Source] keeps that image published.
//
// The list holds, in this order: the core kernel's symbols, sorted by address; the symbols of
// modules (newest module first, unsorted within a module); copies of modules' init functions
// that ftrace keeps; the functions of BPF programs; and the pages of kprobes
// (kernel/kallsyms.c, update_iter). The kernel formats it anew for each reader, one page at a
// time, at about 20 µs per page. The time for the parts after the modules grows with the square
// of their length, so the package reads no more than it needs.
package kallsyms
