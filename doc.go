// Package kernelsym is a processor for the OpenTelemetry Collector that puts
// names on kernel code.
//
// It keeps caches of the symbols of the kernel it runs on, and rewrites the
// kernel frames of OTLP profiles that have no name yet: to function names, and to
// the file IDs of the kernel and its modules. Everything else in a profile comes
// out as it came in. A collector is built with it by ocb, with a line
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
// It goes one way. Each source keeps one kind of code current and publishes an
// immutable table after every change; the cache runs the sources and holds the
// tables they published last. A message with kernel frames has the sources read what the
// kernel has announced so far, and is rewritten with the snapshot of the moment, without
// waiting for anything. A table also has what was unloaded, and when it was there: the
// samples of a message are older than its snapshot. Which packs a message could use is told
// to their store, which has them for later ones.
//
// # Glossary
//
//   - symbol: a name and the addresses [start, end) of the code that has it.
//   - image: a piece of kernel code that is loaded and unloaded as one: the core
//     kernel ("vmlinux"), a module, a BPF function, a trampoline, a page of code.
//   - lifetime: the interval in which an image certainly was there.
//   - blind interval: a time in which code may have come or gone unseen.
//   - build id: what the linker noted in a module to identify the build; the same
//     on every machine that runs it.
//   - file ID: a hash of the build id, by which backends of profiles find a file
//     (process.executable.build_id.htlhash).
//   - location, stack, sample, mapping, dictionary: as in OTLP's profiles.proto.
//   - instant: when a sample was taken, on the clock of the kernel that does not
//     stand still and is never set (CLOCK_BOOTTIME); profiles have Unix times.
//   - history: what is known of code that was unloaded.
//   - frame: a location, that is, an address and what is known of it.
//   - pack: a file with what debug information says of one build: source lines, inlined
//     functions, symbols.
//   - gateway: a processor without a kernel of its own, which knows only packs.
//   - leaf: the first frame of a stack.
//   - exact frame, caller: a frame where the CPU was, as the leaf or where it was
//     interrupted; and one that holds a return address.
//
// # Reading order
//
// docs/contract.md (what must hold; comments and tests cite its rules by number),
// internal/symtab (what is known), internal/symcache (who keeps it known),
// internal/kallsyms (the plainest source), internal/bpfprog (the liveliest),
// internal/realtime (clocks), internal/pack and internal/packs (what debug information
// adds, and where it comes from), internal/rewrite (what is done with it),
// kernelsymprocessor (the component). kernelstackreceiver, which samples
// kernel stacks, and cmd/kernelsym, the operator's tool, stand for themselves.
package kernelsym
