// SPDX-License-Identifier: Apache-2.0

// Package kernelstack samples the kernel stacks of running or of waiting threads on all CPUs, and turns them into
// profiles. The receiver "kernelstack" sends these on, and the tool's command top counts them.
//
// A Sampler reads the perf rings, leaves out the idle loop (idle) or pairs the switches of threads (waits), names threads
// (threads), finds the container of each sample (cgroups, by the paths that container.go reads, and claims, where several
// cgroups have the name of one container), and collects samples in a message. The records of threads and cgroups come from
// rings of their own, and are applied in the order of time (names).
package kernelstack
