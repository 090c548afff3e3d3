// SPDX-License-Identifier: Apache-2.0

// Package kallsyms reads the kernel's list of its symbols, /proc/kallsyms.
//
// [Scanner] reads the lines, [ParseCore] makes a module of those of the core
// kernel, and [Source] keeps that module published.
//
// The list holds, in this order, the core kernel's symbols sorted by address,
// those of modules (newest module first, not sorted within one), copies of
// modules' init functions that ftrace keeps, the functions of BPF programs and
// the pages of kprobes (kernel/kallsyms.c, update_iter). The kernel formats it
// anew for each reader, a page at a time, at some 20 µs a page; the parts after
// the modules take time that grows with the square of their length. So nothing
// is read that is not needed.
package kallsyms
