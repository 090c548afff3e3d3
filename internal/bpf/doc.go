// SPDX-License-Identifier: Apache-2.0

// Package bpf makes the calls of bpf(2) that it takes to know which BPF programs
// are loaded, where their code lies, and from which source lines it was made.
//
// It asks for no more than that, and keeps its buffers: what a library returns of
// a program takes six times as long, which counts where there are thousands. What
// it reads is laid out as in include/uapi/linux/bpf.h of Linux 6.12, of
// which older kernels leave out the end.
//
// # Glossary
//
//   - id: the number of a program, not used again while others are free.
//   - tag: a hash of a program's instructions. Programs can have the same.
//   - function: a piece of JITed code. A program has at least one, its main one;
//     functions that it calls are further ones.
//   - BTF: types and strings of a program, an object of its own that programs can
//     share.
//
// bpf(2) takes addresses of memory, so this package uses unsafe; its other files
// see slices only.
package bpf
