// SPDX-License-Identifier: Apache-2.0

// Package bpf lists the loaded BPF programs, and reads where their code lies and from which source lines it was
// compiled.
//
// It lists programs and counts their runs with github.com/cilium/ebpf, but makes the system calls that read one program
// itself. ebpf.Program.Info copies the translated and the JITed code of a program, reads /proc/self/fdinfo, loads
// programs to probe for features, and does not have the tags of functions: with it, a program takes six times as long,
// which matters where thousands are loaded. This package asks for fewer details, and reuses its buffers. Its
// structs have the layout of include/uapi/linux/bpf.h in Linux 6.12; older kernels omit the last fields.
//
// Names and source lines come from package internal/btf. For a program of three functions with 67 source lines and 700
// bytes of BTF, github.com/cilium/ebpf/btf takes 11 times as long as that package (54 µs) and 5 times the memory: it
// makes Go values of all types and lines.
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
