// SPDX-License-Identifier: Apache-2.0

// Package kernelstackreceiver is a receiver that samples the stacks of the kernel
// on all CPUs with perf events, without BPF and without names. The processor
// "kernelsym" names its frames. On any machine, it provides real input to try and
// test that processor.
//
// A profile has a sample for each stack, thread and CPU, with the instants at
// which it was seen, in nanoseconds since the Unix epoch, and without values: each
// instant counts as one. Its type is samples/count, its period is the time that each
// of them stands for, cpu/nanoseconds, whatever the event. The OTel eBPF profiler sends
// the same kind of profile. It is the only kind that all consumers understand as CPU time.
//
// A stack is what the kernel recorded: absolute addresses, leaf first, in locations
// whose attribute profile.frame.type is "kernel". What a CPU did in a guest of KVM, in
// its kernel or its user code, is a stack of one such location, without an address, whose
// function is "[guest]". On arm64, the kernel counts the work that KVM does for a guest
// as the guest's own. Samples have the attributes process.pid and thread.id (but for the idle task and for
// tasks of PID namespaces that are not visible here, which have no numbers), thread.name
// (if it can be found out) and cpu.logical_number.
//
// The event "cpu-clock" is a timer. "cycles" counts reference cycles, those of the TSC,
// and samples after a fixed number of them. It does not sample by cycles at a frequency, as
// perf does: then a CPU that has little to do gets as many samples as a busy one, and how
// long each of them stands for is not known.
//
// Package kernelstack samples; kernelStacks sends its messages on and counts.
package kernelstackreceiver
