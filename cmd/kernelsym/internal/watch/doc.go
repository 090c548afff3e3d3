// SPDX-License-Identifier: Apache-2.0

// Package watch prints modules and BPF code as the kernel loads and unloads them.
//
// It is given the machine's /proc and /sys, and prints a line for each change, the time and the process that loaded the
// code included, if they are certain. What it shows are the differences of successive tables of a source, so that a line
// says what names a profile, and not what the kernel announced:
//
//	perf rings ─ records ─► source of BPF code ─ tables ─► changes ─► printer
//	                 │                                        ▲
//	                 └─────► loaders ─ the process of a load ─┘
//	                            │
//	                            └─ came and went between two tables ─► unshown
//	kobject events ───────► source of modules ── tables ─► changes ─► printer
//
// Tables have no processes, so loaders sees the records on their way to the source, and keeps the process of each load until
// a table has it. A load whose unload follows within a few milliseconds is in no table: loaders finds it, and unshown
// prints how many there were.
//
// Each source calls back in a goroutine of its own; Run returns when both have ended. A lock is held while anything is
// printed. changes and loaders belong to one source, and need none.
package watch
