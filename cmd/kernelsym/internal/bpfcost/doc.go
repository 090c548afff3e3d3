// SPDX-License-Identifier: Apache-2.0

// Package bpfcost counts what each BPF program costs, from samples of kernel stacks. A program that is on a stack is
// running, unless a frame between it and the leaf was interrupted, which the roles of the frames say. Next to this, it
// shows the kernel's own counts and descriptions of the programs.
//
// # Glossary
//
//   - self: samples in the code of a program.
//   - total: samples in a program or in code that it called: helpers, kernel functions, and the
//     programs that those triggered. The kernel counts the same unless a program tail-calls
//     another one, which then takes its place on the stack.
//   - interrupted: samples in an interrupt or exception that arrived in a program or in code that
//     it called. These are not part of the program's cost, but of the time that the kernel counts.
//   - trampoline: code that calls programs at the entry or exit of a kernel function.
package bpfcost
