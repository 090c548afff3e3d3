// SPDX-License-Identifier: Apache-2.0

// Package kernelstack samples the stacks of the kernel on all CPUs and turns them into
// profiles. The receiver "kernelstack" sends these on, and the tool's command top counts them.
//
// A Sampler reads the perf rings, names threads (threads), and collects samples in a message.
package kernelstack
