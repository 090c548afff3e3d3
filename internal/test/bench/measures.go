// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// A measure explains a figure to its reader.
type measure struct {
	what string
	goal float64 // upper limit of the figure; noGoal if it is only printed
	than string  // the reference it is compared with, or its unit
}

const noGoal = -1

// What figures are compared with.
const (
	thanCodec  = "decoding and encoding the message"
	thanSearch = "a binary search in the sorted starts"
	thanIdeal  = "writing the same names, all known"
)

// measures explains each reported figure. The project's issues set the goals.
var measures = map[string]measure{
	"kallsyms_part_needed":   {"part of /proc/kallsyms that is read", noGoal, "the whole file"},
	"kallsyms_load_vs_read":  {"CPU time to load the core kernel's symbols", 1.15, "reading all of /proc/kallsyms"},
	"kallsyms_parse_vs_scan": {"time to parse them from memory", 6, "looking for the ends of its lines"},
	"symtab_bytes_per_symbol": {
		"memory for a symbol of the core kernel, with its name", 28, "bytes"},
	"load_alloc_vs_table": {"memory allocated to load them", 3, "the size of the table"},
	"start_ms":            {"time until a processor has started", noGoal, "ms"},
	"start_vs_first_read": {"time until a processor has started", noGoal, "reading the first tables, and no more"},

	"node50k_list_cpu_ms":       {"CPU time to list 50,000 BPF programs", noGoal, "ms"},
	"node50k_list_again_cpu_ms": {"CPU time to list them again after records were lost", noGoal, "ms"},
	"node50k_bytes":             {"memory for 50,000 BPF programs", noGoal, "bytes"},
	"node50k_message_us":        {"time to empty the rings for a message, at 50,000 programs", noGoal, "µs"},
	"node50k_event_us":          {"time for the load or unload of a program, at 50,000 programs", 4.5, "µs"},

	"node256_open_files":   {"open files to follow BPF programs on 256 CPUs", noGoal, "files"},
	"node256_ring_bytes":   {"locked memory to follow them on 256 CPUs", noGoal, "bytes"},
	"node256_start_ms":     {"time to open the rings of 256 CPUs", noGoal, "ms"},
	"node256_drain_us":     {"time to find that the rings of 256 CPUs are empty", noGoal, "µs"},
	"node256_refresh_us":   {"time to compare the rings of 256 CPUs with those that are online", noGoal, "µs"},
	"node256_wakeups_idle": {"wakeups while the rings of 256 CPUs are empty", 2, "a second"},

	"modules_bytes_per_symbol": {"memory for a symbol of a module", 30, "bytes"},
	"modules_load_alloc_mb":    {"memory allocated to load 117 modules", noGoal, "MB"},
	"modules_load_ms":          {"time to load 117 modules", 15, "ms"},
	"modules_load_vs_read":     {"time to load 117 modules", 1.5, "reading the files it needs"},

	"lookup_vs_binary_search":               {"time to look up a random address", 0.5, thanSearch},
	"lookup_hot_vs_binary_search":           {"time to look up frequent addresses", 0.5, thanSearch},
	"lookup_with_name_vs_binary_search":     {"time to look up a random address and its name", noGoal, thanSearch},
	"lookup_hot_with_name_vs_binary_search": {"time to look up frequent addresses and their names", noGoal, thanSearch},
	"bpf_lookup_vs_binary_search":           {"time to look up an address among 50,000 BPF programs", 1.5, thanSearch},
	"history_lookup_vs_plain":               {"time to look up an address that 8 programs had before", 2, "the same without history"},

	"bpf_event_bytes":     {"memory allocated for an event, 50,000 programs loaded", 16384, "bytes"},
	"bpf_event_1k_us":     {"time to follow an event, 1,000 programs loaded", 3, "µs"},
	"bpf_event_50k_vs_1k": {"time to follow an event, 50,000 programs loaded", 3, "1,000 programs loaded"},
	"bpf_message_after_1k_events_us": {
		"time to publish for the first message after 1,000 events, 1,000 programs loaded", noGoal, "µs"},
	"bpf_burst_50k_ms_per_1k":           {"time to follow a burst of 1,000 loads, 50,000 programs loaded", noGoal, "ms"},
	"bpf_event_delay_ms":                {"delay from the load of a program to its name, median", 2, "ms"},
	"bpf_event_delay_max_ms":            {"delay from the load of a program to its name, maximum of 1,000", noGoal, "ms"},
	"bpf_list_vs_syscalls":              {"CPU time to list 1,000 BPF programs", 2, "the system calls for it"},
	"bpf_bytes_per_program":             {"memory for a BPF program", noGoal, "bytes"},
	"bpf_bytes_per_program_of_64_lines": {"memory for a BPF program with 64 source lines", noGoal, "bytes"},
	"history_bytes_per_entry":           {"memory for an unloaded program in the history", 250, "bytes"},
	"history_overlapping_bytes_per_entry": {
		"memory for an unloaded program of 20 kB that had the addresses of hundreds of others", 500, "bytes"},
	"history_load_us":            {"time to load a program of 28 kB at these addresses", 20, "µs"},
	"history_unload_us":          {"time to unload it", 20, "µs"},
	"history_past_lookup_ns":     {"time to look up one of these addresses at an earlier time", noGoal, "ns"},
	"history_always_lookup_ns":   {"time to look it up for all time", noGoal, "ns"},
	"offcpu_switch_vs_free":      {"time of a context switch while switches are recorded", noGoal, "one that is not recorded"},
	"offcpu_each_waits_per_s":    {"waits of off-CPU time where each is a sample", noGoal, "a second"},
	"offcpu_each_bytes_per_wait": {"size of such a wait, named and compressed with gzip", noGoal, "bytes"},
	"offcpu_each_mb_per_day":     {"size of all of them, each a sample", noGoal, "MB a day"},
	"offcpu_sum_waits_per_s":     {"waits where those with the same stack are summed", noGoal, "a second"},
	"offcpu_sum_bytes_per_wait":  {"size of such a wait with a sum", noGoal, "bytes"},
	"offcpu_sum_mb_per_day":      {"size of all of them, with sums", noGoal, "MB a day"},
	"offcpu_reading_vs_switch":   {"CPU time to read the records of a context switch", noGoal, "a context switch"},

	"wakeups_idle":  {"wakeups of all threads when nothing happens", 2, "a second"},
	"wakeups_churn": {"wakeups when 20 programs are loaded and 20 unloaded a second", 60, "a second"},

	"top_cpu_percent":     {"CPU time of `kernelsym top` while all CPUs run kernel code", 2, "% of a core"},
	"top_first_sample_ms": {"time until `kernelsym top` samples all CPUs", 100, "ms"},
	"top_first_table_ms":  {"time until `kernelsym top` shows a table", 1000, "ms"},

	"rewrite_vs_floor":          {"time to name a message, 6,000 kernel frames", 3, thanIdeal},
	"rewrite_vs_codec":          {"time to name a message, 6,000 kernel frames", 0.25, thanCodec},
	"rewrite_frame_ns":          {"time for a kernel frame of a message of 6,000", noGoal, "ns"},
	"rewrite_small_vs_codec":    {"time to name a small message, 450 kernel frames", 0.25, thanCodec},
	"rewrite_small_us":          {"time to name a message of 450 kernel frames", noGoal, "µs"},
	"rewrite_real_151_vs_codec": {"time to name a message shaped like real ones, 151 locations", noGoal, thanCodec},
	"rewrite_real_151_us":       {"time to name a message like real ones of 151 locations", noGoal, "µs"},
	"rewrite_real_300_vs_codec": {"time to name a message shaped like real ones, 300 locations", noGoal, thanCodec},
	"rewrite_real_300_us":       {"time to name a message like real ones of 300 locations", noGoal, "µs"},
	"rewrite_real_451_vs_codec": {"time to name a message shaped like real ones, 451 locations", noGoal, thanCodec},
	"rewrite_real_451_us":       {"time to name a message like real ones of 451 locations", noGoal, "µs"},
	"rewrite_3x_frame_ns":       {"time for a kernel frame of a message of 18,000", noGoal, "ns"},
	"rewrite_15x_frame_ns":      {"time for a kernel frame of a message of 90,000", noGoal, "ns"},
	"split_rewrite_vs_floor":    {"time if a tenth of the frames must be split", noGoal, thanIdeal},
	"split_rewrite_vs_codec":    {"time if a tenth of the frames must be split", 1.1, thanCodec},
	"split_rewrite_frame_ns":    {"time for a kernel frame if a tenth must be split", noGoal, "ns"},
	"split_15x_frame_ns":        {"time for a kernel frame of a message of 90,000, if a tenth must be split", noGoal, "ns"},
	"split_few_frame_ns":        {"time for a kernel frame if 0.2 % of the frames must be split", noGoal, "ns"},
	"split4_rewrite_vs_codec":   {"time if a tenth must be split, four timestamps a sample", 1.5, thanCodec},
	"split4_rewrite_frame_ns":   {"time for a kernel frame if a tenth must be split, four timestamps a sample", noGoal, "ns"},
	"mixed_rewrite_vs_codec":    {"time if frames are leaves in some stacks, callers in others", noGoal, thanCodec},
	"mixed_rewrite_frame_ns":    {"time for a kernel frame if frames are leaves in some stacks, callers in others", noGoal, "ns"},
	"lines_frame_ns":            {"time for a kernel frame with inlined functions and lines of packs", noGoal, "ns"},
	"passthrough_allocs":        {"allocations for a message without kernel frames", 0, "allocations"},
	"passthrough_vs_codec":      {"time for a message without kernel frames", 0.02, thanCodec},
	"passthrough_named_allocs":  {"allocations for a message whose frames all have names", 0, "allocations"},
	"passthrough_named_vs_codec": {
		"time for a message whose frames all have names", 0.05, thanCodec},
	"hostile_vs_codec": {"time for the worst hostile message", noGoal, thanCodec},
	"hostile_growth":   {"worst growth of time for a hostile message of 4 times the size", noGoal, "the growth of the size"},
}

// A figure is the value of a measure.
type figure struct {
	name  string
	value float64
}

// reported has the figures in the order in which they were measured.
var reported []figure

// report prints a figure and keeps it for the table.
func report(name string, value float64) {
	fmt.Printf("bench %s %.3f\n", name, value)
	reported = append(reported, figure{name, value})
}

// writeTable writes what the figures mean. It returns an error for each figure without a
// description.
func writeTable(out io.Writer, figures []figure) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nWHAT\tFIGURE\tGOAL\tCOMPARED TO, OR UNIT\tNAME")
	var errs []error
	for _, f := range figures {
		m, described := measures[f.name]
		if !described {
			errs = append(errs, fmt.Errorf("measures.go does not describe %s", f.name))
			m = measure{"?", noGoal, "?"}
		}
		goal := ""
		if m.goal != noGoal {
			goal = fmt.Sprintf("≤ %v", m.goal)
			if f.value > m.goal {
				goal += " missed"
			}
		}
		fmt.Fprintf(w, "%s\t%.4g\t%s\t%s\t%s\n", m.what, f.value, goal, m.than, f.name)
	}
	return errors.Join(append(errs, w.Flush())...)
}
