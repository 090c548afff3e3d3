// SPDX-License-Identifier: Apache-2.0

// Package bpfcost counts what each BPF program costs, from named profiles of kernel stacks,
// and beside that what the kernel itself counts and tells of the programs.
//
// # Glossary
//
//   - self: samples in the code of a program.
//   - total: samples in a program or in what it called: helpers, kernel functions, the
//     programs that those triggered. The kernel counts the same where a program ends as it
//     began; a program that another tail-calls has taken its place on the stack.
//   - interrupted: samples in an interrupt or exception that arrived in a program or in what
//     it called. These are not the program's cost, but part of the time that the kernel counts.
//   - trampoline: code that calls programs from the entry or the exit of a kernel function.
package bpfcost
