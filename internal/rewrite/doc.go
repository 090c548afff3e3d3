// SPDX-License-Identifier: Apache-2.0

// Package rewrite puts names on the kernel frames of OTLP profiles: sections 1, 4 and 5 of the contract, on one
// message at a time. It is pure.
//
// It is the only package that knows both sides: package otlp knows the tables of a message, package symbolize
// knows what a frame is, and package inline what debug information adds.
//
// # The steps
//
// Whatever is done with a message takes a pass over it. The steps are in pass.go, and each has a file. The first four name
// the frames, and leave the message as it is:
//
//	find     which locations are kernel frames, and which of them are looked up (contract 1)
//	walk     in which roles the stacks have them, which makes questions: a frame, in a role
//	resolve  the answers, in the order of addresses; and what each would change (address.go: contract 4.1 to 4.3)
//	choose   where the answer depends on the sample, that of each instant (contract 5.5; times.go: contract 5.3)
//
// Then there are two ways on. [Rewriter.Rewrite] writes the answers, and [Rewriter.Name] returns them to be read:
//
//	                        ┌─► write    the frames with one answer (contract 4)
//	find, walk,             │   split    copies of the frames and stacks with several (contract 5.5)
//	resolve, choose  ───────┤
//	                        └─► Named    codes, by number, and the stacks of samples in these numbers
//
// Most messages have no frame with several answers. A message without candidates ends after the first step, untouched.
//
// # The one idea
//
// A location is shared by all stacks that contain it, but what it is depends on the stack and the time. So
// answers are found for questions, not for locations. A location whose questions all have one answer for the
// whole message gets that. Any other location is copied, once for each further answer, and the stacks and
// samples are pointed to the copies.
package rewrite
