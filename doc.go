// SPDX-License-Identifier: Apache-2.0

// Package kernelsym is a processor for the OpenTelemetry Collector that names the functions in
// kernel frames.
//
// It caches the symbols of the kernel it runs on. It rewrites the kernel frames of OTLP
// profiles that have no name yet: it adds function names, and the file IDs of the kernel and
// its modules. Everything else in a profile passes through unchanged. To build a collector with
// it, add this to the ocb manifest:
//
//	processors:
//	  - gomod: github.com/kernelsym/kernelsym v0.0.0
//
// # The flow
//
//	kernel                      internal/                                kernelsymprocessor/
//	/proc/kallsyms ───────────► kallsyms ─┐
//	perf events ───► perfring ─► bpfprog ─┼─ publish ─► symcache ─ Snapshot ─► rewrite ─► next consumer
//	bpf(2) ────────► bpf ──────►          │            one atomic pointer     once a message
//	netlink ───────► uevent ───► kmod ────┤
//	/proc/modules, /sys/module ─►         │
//	packs, in a directory or by HTTP ► packs ─ Set ──────────────────────────► rewrite
//	                                     └─ for kallsyms, if the kernel hides its symbols: locate
//
// Data flows one way. Each source follows one kind of code and publishes immutable tables: at
// the latest when a message asks for one. The cache runs the sources and holds their last tables. When a message
// with kernel frames arrives, the sources read everything that the kernel has announced so far;
// the message is then rewritten with the current snapshot, without waiting for anything. A
// table also holds unloaded code, and when it was loaded, because the samples of a message are
// older than its snapshot. The store of packs records which packs a message could use, and
// provides them for later messages.
//
// # Glossary
//
//   - source: what follows one kind of code: the core kernel, modules, BPF, packs. It keeps a table
//     of it.
//   - event: what the kernel says by itself when code is loaded or unloaded: a record of perf, or a
//     uevent. A list is its answer to a question.
//   - ledger: turns the events, lists and losses of BPF into lifetimes. The follower of package
//     bpfprog applies records to it. The tracker of package kmod does the work of both for modules, whose
//     events carry no time.
//   - table: the images of one source, loaded and unloaded, with their lifetimes. It never changes.
//   - snapshot: the tables of all sources at one instant. A message is named from one snapshot.
//   - symbol: a name and the addresses [start, end) of the code that has it.
//   - image: a piece of kernel code that is loaded and unloaded as one: the core
//     kernel ("vmlinux"), a module, a BPF function, a trampoline, a page of code.
//   - lifetime: the interval during which an image was certainly loaded.
//   - blind interval: an interval during which code may have been loaded or unloaded without a
//     record.
//   - build id: the identifier of a build, which the linker writes into the kernel or a
//     module; the same on every machine that runs it.
//   - file ID: a hash of the build id, by which profiling backends find a file
//     (process.executable.build_id.htlhash).
//   - location, stack, sample, mapping, dictionary: as in OTLP's profiles.proto.
//   - instant: the time of a sample, on the kernel's clock that never stops and is never set
//     (CLOCK_BOOTTIME); profiles have Unix times.
//   - builder: holds the loaded images of a source and its history, and builds the tables.
//   - history: what a source remembers of the images that were unloaded, with their lifetimes.
//   - frame: a location, that is, an address and everything known about it.
//   - pack: a file with the debug information of one build: source lines, inlined
//     functions, symbols.
//   - gateway: a processor without a kernel of its own, which takes all names from packs.
//   - leaf: the first frame of a stack.
//   - exact frame, caller: an exact frame holds the address at which the CPU was, either as the
//     leaf or where it was interrupted; a caller holds a return address.
//
// # Goroutines
//
// Whoever starts a goroutine waits for it, but for short ones that a timer starts: to stop a cache a minute after
// its last user, and to end a wait. Except for the receiver's, all belong to a cache
// (symcache.Cache), which all processors with the same sources share:
//
//	symcache   one for each source: its Run, again after a failure; one that reads the clock; and,
//	           now and then, one that writes a log message later
//	bpfprog    one that waits for events about CPUs, while Run waits for records
//	kmod       one that waits for events about modules, while Run reads the list or symbols
//	kallsyms   one that waits in the kernel while Run looks at it, for a quarter of a second; see locate
//	packs      one that reads the directory, four that fetch; Run itself publishes what they open
//	receiver   one for kernel stacks, one for off-CPU time
//
// Messages are named on the goroutines of the pipeline. They share a Rewriter and the sources:
// each takes one snapshot, and locks a source only while it applies the events that have come.
//
// # Shutdown
//
// The receiver ends its goroutines, and sends what they have sampled so far. A processor stops
// reporting its status and its metrics, and releases its cache; messages that still come get no
// names, and lose absolute addresses as before the symbols are read. The admission extension only
// ends its metrics. A cache without users runs on for a minute, for a collector that reloads its
// configuration, then stops its sources and waits for them. If the process ends first, the kernel
// closes what is open; nothing on the disk needs an orderly end.
//
// # Reading order
//
// docs/contract.md (the rules that must hold; comments and tests cite them by number),
// internal/symtab (the symbols of an image), internal/timeline (which image was at an address,
// and when), internal/ledger (how events, lists and losses become lifetimes), internal/symbolize
// (what a frame of a stack is), internal/symcache (the cache of tables), internal/kallsyms (the
// simplest source), internal/kmod (modules), internal/perfring and internal/bpfprog (perf rings,
// and BPF, the busiest source), internal/realtime (clocks), internal/pack and internal/packs
// (debug information, and where it comes from), internal/locate (where the kernel is, if it hides
// that), internal/inline (what packs add to a frame), internal/otlp (the tables of a message),
// internal/rewrite (the changes to a message),
// kernelsymprocessor (the component). internal/kernelstack and kernelstackreceiver,
// which sample kernel stacks, internal/sender, which finds out where a message comes from, internal/admission and
// admissionextension, which bound the memory of messages, and cmd/kernelsym, the operator's tool, can be read on their
// own.
package kernelsym
