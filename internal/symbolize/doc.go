// SPDX-License-Identifier: Apache-2.0

// Package symbolize finds out what a frame of kernel code is: sections 1 to 3 of the contract, and rule 5.4.
// It knows no profile format and no clock.
//
// It is given a [Frame], which is an address with the statements of its producer; the [Role] that the frame
// has in a stack; and an interval of time that holds the sample. [Kernel.Resolve] returns an [Answer]: the
// image and the symbol, and the address at which they were looked up, or the [Outcome] that says why there
// are none.
//
// # The one idea
//
// Every frame is looked up at exactly one address, and the frame that it called decides at which. A frame
// that was calling another is looked up inside the call instruction, one byte before the return address. A
// frame that was interrupted, or was about to be jumped to, is looked up at its instruction pointer.
//
//	stack, leaf first        in entry code   role      looked up at
//	hrtimer_interrupt                        exact     ip       the leaf
//	asm_sysvec_apic_timer    yes             caller    ip-1
//	vfs_read                                 exact     ip       interrupted: the frame before is entry code
//	ksys_read                                caller    ip-1
//
// [Kernel.Walk] goes through a stack once and finds the roles. The rules about them are in roles.go. What a
// role means for the address can depend on which code was loaded at the time, so Resolve works that out.
//
// # Who uses it
//
// The rewrite of profiles asks about each frame of a message; the operator's tool asks about addresses. On a
// gateway, which has no kernel of its own, a Kernel stands for all kernels that have packs (contract
// 10.2).
package symbolize
