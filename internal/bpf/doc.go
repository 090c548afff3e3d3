// SPDX-License-Identifier: Apache-2.0

// Package bpf makes the bpf(2) calls that find out which BPF programs are loaded, where their
// code lies, and from which source lines it was compiled.
//
// It asks for no more than that, and reuses its buffers: reading a program through a library
// takes six times as long, which matters with thousands of programs. Its structs are laid out
// as in include/uapi/linux/bpf.h of Linux 6.12; older kernels leave out their ends.
//
// # Glossary
//
//   - id: the number of a program, which is not reused while others are free.
//   - tag: a hash of a program's instructions. Several programs can have the same tag.
//   - function: a piece of JITed code. A program has at least one, its main function; each
//     function that it calls is another.
//   - BTF: the types and strings of a program, in an object of its own that several programs
//     can share.
//
// bpf(2) takes memory addresses, so this package uses unsafe. Files that do not prepare a call
// work with slices only.
package bpf
