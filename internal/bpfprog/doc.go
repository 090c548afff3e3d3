// Package bpfprog keeps the code that the kernel makes as it runs known: the JITed
// functions of BPF programs, and the trampolines and pages that go with them.
//
// # Glossary
//
//   - program, function, tag: see package bpf. A program's functions are loaded and
//     unloaded together.
//   - trampoline: code that the kernel makes to call BPF programs, from where they
//     are attached to. Dispatchers (of XDP programs) and struct_ops images are alike.
//   - out-of-line page: code that the kernel makes for kprobes and for ftrace.
//   - baseline: what was there before the source began to listen.
//   - resync: to list programs again, because records were lost.
//
// # The flow
//
// [Source.Run] first subscribes to the kernel's records of what comes and goes
// (package perfring), then lists the programs that are there (package bpf), so that
// nothing is missed in between, and then applies the records to what it knows, in
// the order of their times. What is there is never read anew while records come: a
// burst of them is one change, and costs what it changes.
//
// A record gives a function its name and its place at once; for the rest, the
// number and type of the program and its source lines, the kernel is asked as soon as
// that is published. A program that is gone by then has a name and no more.
//
// The kernel lists no trampolines and pages but in /proc/kallsyms, the end of which
// is read once, and only if that is quick: it takes time that grows with the square
// of the number of programs. It is read again only for what records that were lost may
// have been about.
//
// # What is certain
//
// A function that a record tells of was there since the record's time. One that is
// found by a list was since the list, and perhaps before: as early as its program's
// loading began, if the source was not there yet, else as early as records were missing.
// What nobody saw end was there for as long as no record was missing, and perhaps up to
// the look that missed it, or until something else was loaded into its place. No record
// is missing up to a look at the rings that a later look has confirmed, which is some
// ten seconds ago when nothing happens, and less when something does.
//
// # When records are lost
//
// Programs are listed again: only those that are new are asked for, and what is gone is
// recorded to have gone since no record was missing. Lists take at most one tenth of the
// time. A record that comes later than it should, so that it may have been undone
// already, counts as lost. A record older than the last list is about what that has
// found already or, if it says that a program goes, about one before it: then the kernel
// is asked which.
//
// Trampolines and pages are in no list of programs. If there are any whose end may have
// been lost, the end of /proc/kallsyms is read when no records were lost for a while, at
// most once a minute, and what is not found is gone. What cannot be looked for, as that
// would take too long or it is never quiet, is taken for gone.
//
// A later [Source.Run] goes on where the one before it ended, as if all records in
// between were lost.
//
// # Without privileges
//
// Without records, programs are listed every second, only new ones are asked for, and
// records are tried again every minute. Trampolines are not known then. Where listing is
// refused, but records come, programs that were there before are taken from
// /proc/kallsyms, without their lengths.
package bpfprog
