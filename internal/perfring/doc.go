// SPDX-License-Identifier: Apache-2.0

// Package perfring reads the ring buffers of perf events on all CPUs as one stream of records,
// sorted by time.
//
// # Glossary
//
//   - ring: a buffer that the kernel shares with this process, one for each CPU:
//     a page of metadata and a power of two of pages with records. The kernel
//     appends at data_head, we free at data_tail (struct perf_event_mmap_page of
//     include/uapi/linux/perf_event.h).
//   - task: a thread with events of its own, one on each CPU, which write to the rings of these CPUs. A ring has the records
//     of tasks, or those of all threads.
//   - record: an entry of a ring: a header with type and size, and a body that depends on the
//     type. Numbers are in the machine's byte order.
//   - sample: the record of one interrupt, with the kernel's stack.
//   - guest: a virtual machine of KVM. The kernel does not unwind its stacks.
//   - reference cycles: cycles that a CPU counts at the rate of the TSC while it is not halted.
//   - kernel symbol, ksymbol: code that the kernel generates at run time, with an address, a
//     length and a name: a BPF program, each of its functions, a trampoline.
//   - lost: records for which a ring had no room. The kernel reports their number before the
//     next record that fits. Since Linux 6.0 the number can also be read at any time.
//   - names: the records about threads and cgroups. Any user can cause millions of them a second. So
//     they have rings of their own, so only they get lost, and these rings wake no reader.
//   - throttled: a CPU's event that was stopped until the next tick, because it took
//     kernel.perf_event_max_sample_rate / CONFIG_HZ samples without one. While a CPU has its tick, this
//     happens only if that sysctl is lower than the frequency: the kernel lowers it if samples take too long
//     (kernel.perf_cpu_time_max_percent). A CPU that is idle has no tick (nor does a busy one with nohz_full), so after
//     enough samples it is stopped at any frequency. Until its next tick, its work is not sampled.
//
// # Order
//
// Each CPU writes its ring in order, but the records of different CPUs must be merged: a
// program can be loaded on one CPU and unloaded on another, and its addresses can be reused.
// Two rules make the order correct.
//
//   - Records are returned up to a horizon, a reading of their clock taken before the first
//     ring is read. If one event made another possible, its record was in its ring before the
//     other event got its time. If that time lies before the horizon, the ring was read after
//     both. So no event ever overtakes its cause, whatever the options are, and however long
//     the kernel takes to write a record.
//   - The horizon lies in the past by the window of [Options], so that records of unrelated
//     events have reached their rings, too. A record that arrives even later is returned when
//     it arrives.
//
// Names have the same horizon as other records, so the rules hold between the two rings of a CPU, too.
//
// The package uses unsafe to read and write the positions in a ring with atomic operations, and
// for calls that golang.org/x/sys does not have.
package perfring
