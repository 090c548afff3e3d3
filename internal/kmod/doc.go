// Package kmod follows the kernel's loadable modules: which are loaded, where
// their code lies, which build they are, and their symbols.
//
// /proc/modules says which are loaded (kernel/module/procfs.c), the directories
// /sys/module/NAME where their sections are and which build they have
// (kernel/module/sysfs.c), and /proc/kallsyms has the symbols. When to look is
// told by events about kobjects; without them, the list is looked at once a
// second.
//
// What is known of a new module is published in two steps: at once what it is and
// where, so that its frames get their file ID; then, when they were read, its
// symbols. The kernel lists those of the newest module first, right after its
// own, so reading ends where the modules that are known already begin.
//
// # Where a module's code ends
//
// coresize, also the size in /proc/modules, is the sum of a module's text, data
// and read-only data. Since Linux 6.4 these are separate allocations, so that
// [text, text+coresize) reaches into other modules, BPF programs and
// trampolines. The code ends at text+coresize, or where anything else begins: a
// section of data of the module itself, or any section of another one. Sections
// that are only there while a module is initialized do not count: sysfs still
// lists them when their memory serves others.
package kmod
