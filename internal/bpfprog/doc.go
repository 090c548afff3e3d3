// SPDX-License-Identifier: Apache-2.0

// Package bpfprog follows the code that the kernel generates at run time: the JITed functions of BPF programs, and the
// trampolines and out-of-line pages that belong to them.
//
// # Glossary
//
//   - program, function, tag: see package bpf. The functions of a program are loaded and unloaded together.
//   - trampoline: code that the kernel generates to call BPF programs from the places they are attached to. Dispatchers
//     (of XDP programs) and struct_ops images count as trampolines.
//   - out-of-line page: code that the kernel generates for kprobes and for ftrace.
//   - record: PERF_RECORD_KSYMBOL or PERF_RECORD_BPF_EVENT (package perfring), about a load or an unload.
//   - loss: a blind interval (see contract 5.2) that no list has settled; see package ledger.
//
// # The flow
//
//	perf rings ──► EventSource ─ records ─┐
//	bpf(2) ──────► lister ────── lists ───┼─► follower ─► ledger ─ table ─► publish
//	/proc/kallsyms ────────────── tail ───┘
//
// [Source] drives all of it. It subscribes to records, then lists the loaded programs, and then applies records as they
// come. A mutex guards its state, because [Source.Refresh] empties the rings at any time. The lister makes the slow
// system calls without the mutex: it lists programs, and queries programs that records have announced. Only the end of
// /proc/kallsyms lists trampolines and pages that were loaded before the start or during a loss. It is read when no
// record was lost for a while, because its cost to the kernel grows with the square of the number of programs. It is read again
// if code was unloaded during the reading, because the kernel may then have left out other code.
//
// Each CPU has a ring. cpus.go reads uevents about CPUs that come online and, for a message, asks whether a CPU runs
// without a ring, because uevents are late. Until the source has opened a ring on such a CPU, nothing is certain after the
// rings were opened last.
//
// # Certainty
//
// An image with records of its load and unload was loaded between them. An image that a list shows was loaded when the
// list's last id was read, and an image that /proc/kallsyms shows when that file was read, unless a record from then
// says that it was unloaded. A program has an id before the kernel writes the record of its load, and for some time
// after the record of its unload, but never without its code.
//
// A list is applied after the records from before its end. Programs that have the same id before a loss and after it
// were loaded throughout. Lists take at most one tenth of the time.
//
// The records of a batch are in causal order: the record of a load comes before the record of the unload, and that one
// before the load of the next image at the same address (package perfring reads the clock before the first ring). So no
// record of a load displaces an image that was loaded later.
//
// The program of a function is known from a later record of the task that loaded it. If that task is in another PID
// namespace, a list shows the program, by the function's address. Both are right only if no record was
// lost in between; if a loss turns up later, the ledger takes the conclusion back.
//
// The kernel also reports when the loading of a program began. That proves nothing: the verifier runs after it, for
// seconds in some cases.
//
// # Names
//
// Records contain the kernel's names. A program that was loaded without CAP_BPF has none: its record has an empty name.
// A program of one of the two types that can be loaded this way, and that only a list has shown, has no name until a
// record or /proc/kallsyms shows one.
//
// # Without privileges
//
// Where the kernel refuses records, all time between two lists is a loss, and programs are listed again and
// again: each is certain from the first list that shows its id to the last. Records are
// tried again every minute. Where the kernel refuses lists, there are only records, and a loss
// ends all images.
package bpfprog
