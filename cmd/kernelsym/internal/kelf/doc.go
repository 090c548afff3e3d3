// SPDX-License-Identifier: Apache-2.0

// Package kelf reads what a pack needs from a kernel's ELF file: the core kernel (vmlinux) or a
// module (.ko), stripped, with debug information, or debug information alone. It reads nothing from
// the running kernel.
//
// [SymbolsOfImage] needs no symbol table: it finds the list that the core kernel carries for itself, in
// the kernel that package bootimage unpacks.
//
// # Addresses
//
// A pack address is an offset from the start of the kernel's code. In the core kernel, that start
// is the lower of _text and _stext. A module is a relocatable file in which every section begins at
// 0. This package lays its code out as the kernel does when it loads the module (__layout_sections
// in kernel/module/main.c): the executable sections whose name does not begin with .init, in the
// order of their headers, each aligned. On arm64 the kernel itself fills .plt and
// .text.ftrace_trampoline, and sizes them at load. They come last, and have no pack address.
//
// Debug information of a module is relocated with each section at an address of its own (see
// [File.Offset]), so that the code of two sections never has the same address.
//
// # Glossary
//
//   - area: code that has pack addresses without a gap: the core kernel's text, its init
//     text, or a section of a module.
//   - spool: to decompress into a temporary file.
package kelf
