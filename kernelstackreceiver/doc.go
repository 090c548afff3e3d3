// SPDX-License-Identifier: Apache-2.0

// Package kernelstackreceiver is a receiver that samples the kernel's stacks on all CPUs with
// perf events, without BPF and without names. The processor "kernelsym" names its frames. It
// provides real input on any machine, to try out and test that processor.
//
// A profile has one sample for each stack and set of attributes. The sample has the times at which it
// was taken, in nanoseconds since the Unix epoch, and no values: each time counts as one. The
// type of the profile is samples/count. Its period is the time that each of them stands for, of
// type cpu/nanoseconds, whatever the event. The OTel eBPF profiler sends the same kind of
// profile. It is the only kind that all consumers understand as CPU time.
//
// A stack holds the absolute addresses that the kernel recorded, leaf first, in locations whose
// attribute profile.frame.type is "kernel". The work of a CPU in a guest of KVM, in its kernel
// or its user code, is a stack of one such location. This location has no address, and its
// function is "[guest]". On arm64, the kernel counts the work that KVM does for a guest as the
// guest's own. Samples have the attributes process.pid and thread.id (except for the idle task
// and for tasks of PID namespaces that are not visible here, which have no numbers),
// thread.name (if it can be found out) and cpu.logical_number, unless the configuration omits them.
//
// Resources have service.name, os.version, os.build_id, and host.name or k8s.node.name, as far as they are known.
//
// The event "cpu-clock" is a timer. "cycles" counts reference cycles, at the rate of the TSC,
// and samples after a fixed number of them. It does not sample by cycles at a frequency, as
// perf does: a mostly idle CPU would then get as many samples as a busy one, and the time that
// each of them stands for would not be known.
//
// While a CPU is idle, the kernel runs the idle task on it, and on top of that the interrupts and softirqs of the CPU.
// The timer samples all of this, and a sample is left out if its stack, by the addresses in kallsyms, has nothing but
// the idle loop. Without CAP_SYSLOG, kallsyms has no addresses. Then the idle task is not sampled at all, and the
// receiver's status says so, until a processor of the same collector has located the kernel: the receiver begins again then.
//
// With containers, each record of a sample has the id of the cgroup of the interrupted thread (PERF_SAMPLE_CGROUP, Linux
// 5.7). The attribute container.id is on a resource for each container, on the samples, or on both. The receiver takes the
// path of a cgroup from the record that the kernel writes for a new one, and from the directories of cgroup v2.
//
// With off_cpu, the receiver also records all context switches (PERF_COUNT_SW_CONTEXT_SWITCHES with a sample for each, and
// PERF_RECORD_SWITCH_CPU_WIDE), and sends the time for which threads are off the CPU in profiles of their own. Their type and
// their period type are off_cpu/nanoseconds, and their period is 0; a sample is one wait or, with off_cpu::sum, the sum of
// several, with one value and one timestamp, the end of the last, and the attribute process.context_switch.type: "voluntary",
// or "involuntary" for a thread that could have gone on. A wait that lasts longer than its profile has a sample in each
// profile. The first address of its stack is that of the call of the scheduler, not a return address. It needs the initial
// PID namespace, where all threads have numbers.
//
// Package kernelstack takes the samples; kernelStacks forwards and counts its messages.
package kernelstackreceiver
