// Package kmod follows the kernel's loadable modules: which are loaded, where
// their code lies, which build they are, and their symbols.
//
// /proc/modules says which are loaded (kernel/module/procfs.c), the directories
// /sys/module/NAME where their sections are and which build they have
// (kernel/module/sysfs.c), and /proc/kallsyms has the symbols. The list is
// polled; the kernel's list of symbols is read again only when it changed.
//
// # Where a module's code ends
//
// coresize, also the size in /proc/modules, is the sum of a module's text, data
// and read-only data. Since Linux 6.4 these are separate allocations, so that
// [text, text+coresize) reaches into other modules, BPF programs and
// trampolines. Here the code ends at text+coresize, at the start of the next
// module, or at the end of the page in which the last of the module's symbols
// starts, whichever is lowest. The last may cut the end off a long function; no
// address is ever given to the wrong module.
package kmod
