// SPDX-License-Identifier: Apache-2.0

// Package kmod follows the kernel's loadable modules: which are loaded and since when,
// where their code lies, which build they are, and their symbols.
//
// /proc/modules lists those that are loaded (kernel/module/procfs.c), the directories
// /sys/module/NAME say where their sections are and which build they are
// (kernel/module/sysfs.c), and /proc/kallsyms has the symbols. Events of the kernel say
// when modules are loaded and unloaded; without them the list is read once a second.
//
// What is known of a new module is published in two steps: at once what it is and
// where, so that its frames get their file ID; then, when they were read, its
// symbols. The kernel lists those of the newest module first, right after its
// own, so reading ends where the modules that are known already begin.
//
// # Glossary
//
//   - load: a module from when it is loaded until it is unloaded.
//   - scan: reading the list, and from sysfs what is new in it.
//   - layout: where the sections of a load are.
//   - feed: the socket from which events are read.
//
// # When a load is certain
//
// An event carries no time. "add" is sent once a module is live, and "remove" before its
// memory is freed. So a module was there when its "add" was read, and at any instant at
// which the socket was empty and no "remove" had been read. A list, too, shows what is
// there while it is read; an event that is read after it has precedence. All that stands
// in record.go, which opens no file and reads no clock.
//
// # Where a module's code ends
//
// coresize, also the size in /proc/modules, is the sum of a module's text, data
// and read-only data. Since Linux 6.4 these are separate allocations, so that
// [text, text+coresize) reaches into other modules, BPF programs and
// trampolines; of those not all are announced. See layout.go.
package kmod
