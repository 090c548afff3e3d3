// SPDX-License-Identifier: Apache-2.0

// Package kelf reads what a pack needs to know of a kernel's ELF file: the core kernel
// (vmlinux) or a module (.ko), stripped, with debug information, or debug information
// alone. Nothing of the running kernel is read.
//
// # Addresses
//
// A pack address counts from where the kernel's code begins. The core kernel's is the
// address less the lower of _text and _stext. A module is a relocatable file in which
// every section begins at 0: its code is laid out here as the kernel does when it loads
// the module (__layout_sections in kernel/module/main.c): the executable sections whose
// name does not begin with .init, in the order of their headers, each aligned. On arm64
// the kernel fills .plt and .text.ftrace_trampoline itself and sizes them at load; they
// come last, and have no pack address.
//
// Debug information of a module is relocated with each section at an address of its own
// (see [File.Offset]), so that the code of two sections never has the same address.
//
// # Glossary
//
//   - area: code that has pack addresses without a gap: the core kernel's text, its init
//     text, or a section of a module.
//   - spool: to decompress into a temporary file.
package kelf
