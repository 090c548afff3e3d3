// SPDX-License-Identifier: Apache-2.0

// Package perfring reads the ring buffers of perf events on all CPUs as one
// stream of records in the order of their times.
//
// # Glossary
//
//   - ring: a buffer that the kernel shares with this process, one for each CPU:
//     a page of metadata and a power of two of pages with records. The kernel
//     appends at data_head, we free at data_tail (struct perf_event_mmap_page of
//     include/uapi/linux/perf_event.h).
//   - record: what is in a ring, a header with type and size and a body that
//     depends on the type. The numbers are in the machine's byte order.
//   - sample: the record of one interrupt, with the stack of the kernel.
//   - guest: a virtual machine of KVM. What a CPU does in it the kernel does not unwind.
//   - reference cycles: those that a CPU counts at the rate of the TSC while it is not
//     halted.
//   - kernel symbol, ksymbol: code that the kernel makes as it runs, with an address,
//     a length and a name: a BPF program, each of its functions, a trampoline.
//   - lost: records for which a ring had no room. The kernel tells how many in
//     the next record that fits. Since Linux 6.0 it can also be asked.
//   - throttled: a CPU's event that was stopped for the rest of a tick because
//     it took too long (the sysctl kernel.perf_cpu_time_max_percent).
//
// # Order
//
// Each CPU writes its ring in order, but what happens on two CPUs must be brought
// together: a program can be loaded on one and unloaded on the other, and its
// addresses used again. Two things make that right.
//
//   - Records are passed on up to a horizon, a reading of their clock that is taken
//     before the first ring is read. The record of what made another event possible
//     was in its ring before the other got its time: if that lies before the horizon,
//     the ring was read after both. So what has a cause never overtakes it, whatever
//     the options say, and however long the kernel takes to write a record.
//   - The horizon is the window of [Options] older than now, so that records of
//     events that have nothing to do with each other are in their rings, too. One
//     that comes later than that is passed on when it comes.
//
// The package uses unsafe to read and write the positions in a ring with atomic
// operations, and for what golang.org/x/sys does not have.
package perfring
