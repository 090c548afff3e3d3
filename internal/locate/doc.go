// SPDX-License-Identifier: Apache-2.0

// Package locate finds out where the running kernel's code is in memory, although the kernel hides the addresses of its
// symbols (contract 10.5). A pack says where everything lies relative to the beginning; the beginning, the place, is
// different in each boot.
//
// # The one idea
//
// The kernel prints addresses in some files and names in others, but of one wait of one thread, it says both: a perf
// sample has the addresses of the stack, and the files wchan and stack of the thread have names. Each name is a clue: it
// excludes all places but a few. The place is the one that no clue excludes.
//
//	sample of a wait   0xffffffff9a2c1d26  0xffffffff9a3f0e7b  …
//	wchan              hrtimer_nanosleep
//	pack               hrtimer_nanosleep is [0xf0d90, 0xf0ec0) bytes after the beginning
//	places             0xffffffff9a300000 - k·2 MiB …: only those from which an address is in the function
//
// [Place] decides, and is pure. The rest makes waits and reads the files: [Locator] is what others use.
//
// # Addresses and names of one wait
//
// The perf event records the waiting thread alone. The order of the records shows that the names belong to the last wait:
//
//	records   ──S─o──────────────────────i──▶    S: sample; o: the thread leaves its CPU, to wait; i: it gets a CPU
//	look          ▲    ▲ names ▲                 the last record is o, and the same one, each time
//
// The first look only notices the wait. The names are read at the next look, milliseconds later: the kernel writes the record
// just before the thread leaves its CPU, and by then it has left. If it had not, because a hypervisor stopped the CPU at that
// very moment, the names could be those of an earlier wait. They would contradict the other waits, and nothing would be
// located.
package locate
