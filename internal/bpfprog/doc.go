// SPDX-License-Identifier: Apache-2.0

// Package bpfprog follows the code that the kernel generates at run time: the JITed
// functions of BPF programs, and the trampolines and pages that go with them.
//
// # Glossary
//
//   - program, function, tag: see package bpf. A program's functions are loaded and
//     unloaded together.
//   - trampoline: code that the kernel makes to call BPF programs, from where they
//     are attached to. Dispatchers (of XDP programs) and struct_ops images are alike.
//   - out-of-line page: code that the kernel makes for kprobes and for ftrace.
//   - loss: blind time (contract 5.2) after which no list has confirmed what is there.
//
// # The flow
//
// [Source] runs it all: it subscribes to the kernel's records of what is loaded and
// unloaded (package perfring), then lists the programs that are there (package bpf), and
// then applies records as they come. What it knows is in a record, which a mutex guards:
// [Source.Refresh] empties the rings at any time. The lister makes the slow calls, without
// the mutex: it lists programs and asks for those that records have named. The tail reads
// the end of /proc/kallsyms, which alone shows trampolines and pages that were there
// before, at the start and after losses, when it is quiet. That takes time that grows with
// the square of the number of programs.
//
// # What is certain
//
// An image of which there are records was there from one to the other. One that a list
// shows was there from when the list's last id was read, and one that /proc/kallsyms shows
// from when the file was read, unless a record of that time says that it was unloaded.
// The kernel has an id for a program before it writes its record, and for some time after
// that of its unload, but never while its code is not there.
//
// A list is applied after the records of its time. It is about a loss before it: programs
// that it still shows by their ids were there throughout; all else that was there was
// certainly there only until the loss began. Losses that began while it was read
// remain for the next one. Lists take at most one tenth of the time.
//
// Batches of records are in the order of cause and effect: the record of a load comes
// before that of the unload, and before that of what is loaded in its place (package
// perfring reads the clock before the first ring). So no record of a load displaces what
// came later.
//
// Of which program a function is, a later record of the task that loaded it tells or, if the task
// is in another PID namespace, a list, by the function's address. Both hold only if no record was
// lost in between; if it turns out later that one was, this is not known any more.
//
// The time at which a program's loading began, which the kernel tells, is no evidence:
// the verifier runs after it, for seconds at times.
//
// # Names
//
// Records have the kernel's names. A program that was loaded without CAP_BPF has none:
// its record has an empty name. Programs of the two types that can be loaded so, which
// were found by a list, have a name only if /proc/kallsyms shows it.
//
// # Without privileges
//
// Without records, everything between two lists is a loss, and programs are listed again and
// again: each is certain from the first list that shows its id to the last. Records are
// tried again every minute. Where listing is refused, records are all there is, and a loss
// ends everything.
package bpfprog
