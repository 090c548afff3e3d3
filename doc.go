// SPDX-License-Identifier: Apache-2.0

// Package kernelsym is a processor for the OpenTelemetry Collector that puts
// names on kernel code.
//
// It caches the symbols of the kernel it runs on. It rewrites the kernel frames of OTLP
// profiles that have no name yet: they get function names, and the file IDs of the kernel
// and its modules. Everything else in a profile comes out as it came in. To build a
// collector with it, add this to the manifest of ocb:
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
//
// Data flows one way. Each source follows one kind of code and publishes an immutable
// table after every change. The cache runs the sources and holds their last tables. When a
// message with kernel frames arrives, the sources read what the kernel has announced so far;
// the message is then rewritten with the current snapshot, without waiting for anything. A
// table also has what was unloaded, and when it was there, because the samples of a message
// are older than its snapshot. The store of packs learns which packs a message could use, and
// has them for later messages.
//
// # Glossary
//
//   - symbol: a name and the addresses [start, end) of the code that has it.
//   - image: a piece of kernel code that is loaded and unloaded as one: the core
//     kernel ("vmlinux"), a module, a BPF function, a trampoline, a page of code.
//   - lifetime: the interval in which an image certainly was there.
//   - blind interval: a time in which code may have come or gone unseen.
//   - build id: the identifier of a build, which the linker writes into the kernel or a
//     module; the same on every machine that runs it.
//   - file ID: a hash of the build id, by which backends of profiles find a file
//     (process.executable.build_id.htlhash).
//   - location, stack, sample, mapping, dictionary: as in OTLP's profiles.proto.
//   - instant: the time of a sample, on the clock of the kernel that never stops and is
//     never set (CLOCK_BOOTTIME); profiles have Unix times.
//   - history: the images that were unloaded, and their lifetimes.
//   - frame: a location, that is, an address and what is known about it.
//   - pack: a file with the debug information of one build: source lines, inlined
//     functions, symbols.
//   - gateway: a processor without a kernel of its own, which knows only packs.
//   - leaf: the first frame of a stack.
//   - exact frame, caller: a frame where the CPU was, as the leaf or where it was
//     interrupted; and one that holds a return address.
//
// # Reading order
//
// docs/contract.md (what must hold; comments and tests cite its rules by number),
// internal/symtab (the symbols of an image), internal/timeline (which image had an
// address, and when), internal/symbolize (what a frame of a stack is), internal/symcache
// (which keeps the tables), internal/kallsyms (the simplest source), internal/bpfprog
// (the busiest one), internal/realtime (clocks), internal/pack and internal/packs (what
// debug information adds, and where it comes from), internal/otlp (the tables of a
// message), internal/rewrite (the changes to a message), kernelsymprocessor (the
// component). internal/kernelstack and kernelstackreceiver, which sample kernel stacks,
// and cmd/kernelsym, the operator's tool, can be read on their own.
package kernelsym
