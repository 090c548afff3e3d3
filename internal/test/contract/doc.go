// SPDX-License-Identifier: Apache-2.0

// Package contract compares the rewriter with a model: docs/contract.md written a second time, as simply as possible
// and without a line of the product. The model answers one stack at one instant, by trying all rules in the order of
// the page. It knows no tables, no caches and no intervals, so it is slow, and easy to read beside the page.
//
// A test makes a random world and a random message, rewrites the message, and compares every sample and every count
// with the model's answers. A world is a kernel in which modules and BPF programs come and go, and in which records are
// lost; a message has frames in every form that the page knows, and many that are wrong. A seed that failed is repeated
// with -model.seed.
//
//	world_test.go      a random kernel: images, their lifetimes, blind time (rules 5.1, 5.2)
//	kernel_test.go     the symbols of an image (rules 3.1 to 3.3)
//	load_test.go       which images come and go
//	clock_test.go      a wall clock that is set (rule 5.3)
//	message_test.go    a random message; frames_test.go, its frames; spoil_test.go spoils one index (rule 1.4)
//	use_test.go        what a frame means in its stack: candidates, forms (sections 1 and 2)
//	match_test.go      which mapping names which image (rules 2, 2.1)
//	lookup_test.go     exact frames and callers (rules 2.2, 2.3)
//	at_test.go         which image had an address, and when (rules 5.1, 5.2, 5.4)
//	address_test.go    the address that is written (rules 4.1, 4.2)
//	want_test.go       what must come out for a frame (rules 3.4 to 4.6)
//	pack_test.go       source lines of packs (section 10); gateway_test.go and partial_test.go: gateways (rule 10.2)
//	compare_test.go    the comparison; contract_test.go runs it
package contract
