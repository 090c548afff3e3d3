// Package kernelstackreceiver is a receiver that samples the stacks of the kernel
// on all CPUs with perf events, without BPF and without names: it shows what the
// processor "kernelsym" is for, on any machine, and is real input to test it
// with.
//
// A profile has a sample for each stack, thread and CPU, with the instants at
// which it was seen, in nanoseconds since the Unix epoch. A stack is what the
// kernel recorded: absolute addresses, leaf first, in locations whose attribute
// profile.frame.type is "kernel". Samples have the attributes process.pid,
// thread.id, thread.name (if it can be found out) and cpu.logical_number.
//
// The sampler reads the perf rings ([Receiver]), names threads (threads), and
// collects samples in a message.
package kernelstackreceiver
