// SPDX-License-Identifier: Apache-2.0

// Package kmod follows the kernel's loadable modules: which of them are loaded and since when,
// where their code lies, which build they are, and which symbols they have.
//
// # Glossary
//
//   - load: a module from when it is loaded until it is unloaded.
//   - scan: reading the list of modules and, from sysfs, everything about the new ones.
//   - layout: where the sections of a load lie.
//   - feed: the socket from which events are read.
//
// # The flow
//
//	uevents ─────────────► feed ─── events ───┐
//	/proc/modules ───────► reader ─ lists ────┤
//	/sys/module/NAME ────► reader ─ loads ────┼─► tracker ─► table ─► publish
//	/proc/kallsyms ──────► reader ─ symbols ──┘
//
// /proc/modules lists the loaded modules (kernel/module/procfs.c). The directory /sys/module/NAME
// shows where the sections of a module lie and which build it is (kernel/module/sysfs.c), and
// /proc/kallsyms lists the symbols. The kernel sends an event when a module is loaded or unloaded.
// Without events, the list is read once a second.
//
// [Source] drives all of it. A mutex guards the tracker and the feed, because [Source.Refresh] reads
// events at any time. The reader reads files without the mutex.
//
// A new module is published in two steps: first its build and its addresses, at once, so that its
// frames get their file ID; then its symbols, when they have been read. The kernel lists the symbols
// of the newest module first, right after its own. So the reader stops where the modules begin whose
// symbols it has read before. It also stops when another module is loaded, which comes first:
//
//	a is loaded      ●
//	b is loaded                ●
//	list               ●         ●
//	symbols             ├──────┤  ├────────────┤
//	published          a         a, b          symbols of both
//
// # Init code
//
// The code of a module that runs once, while the module is loaded, is in sections of its own (".init…"), which the kernel
// frees. It gets no name: the module is read when its state is "Live", which is after that, and the image ends before
// these sections (contract 3.2). Frames in it are unresolved.
//
// # How a lifetime begins and ends
//
// An event carries no time. The kernel sends "add" once a module is live, and "remove" before it
// frees the module's memory. So a module was loaded at the instant when its "add" was read, and at
// every instant at which the socket was empty and no "remove" had been read:
//
//	memory         ╞═════════════════════════════════════════════════════╡
//	kernel sends           "add"                           "remove"
//	socket empty     ×               ×       ×       ×
//	events read                "add"                 │              "remove"
//	lifetime                     ╞═══════════════════╡
//
// A list, too, shows the modules that are loaded while it is read. An event that is read after the
// list takes precedence over it. A module that was loaded before the first list, or whose "add" was
// lost, is certainly loaded from the end of the first scan that shows it. After lost events, only
// the build id and the address can show that a module is still the same load (see contract 5.2). If
// they do not, the load before ends where the loss began:
//
//	events           ───────────────┤ lost ├────────────────────
//	scan                                      [began … ended]
//	blind                           ╞═══════════════════════╡
//	A, same build    ═══════════════════════════════════════════
//	B, then B2       ═══════════════╡                       ╞═══
//
// Without events, all time is blind. A module is then certainly loaded from the end of the first scan
// that shows it to the beginning of the last one, if both show the same build:
//
//	scans              [  ]        [  ]        [  ]        [  ]
//	shows the module    no          yes         yes         no
//	lifetime                          ╞════════╡
//
// A module that is unloaded before any list has shown it leaves a blind interval, because its
// addresses are not known. All of these rules are in tracker.go, which opens no file and reads no clock.
//
// # Where a module's code ends
//
// coresize, which is also the size in /proc/modules, is the sum of a module's text, data and
// read-only data. Since Linux 6.4 these are separate allocations. So [text, text+coresize) extends
// into other modules, BPF programs and trampolines, and the kernel does not announce all of those.
// See layout.go.
package kmod
