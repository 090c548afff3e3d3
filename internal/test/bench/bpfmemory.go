// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// someBTF returns BTF without types, with the name of one file.
func someBTF() []byte {
	const strings = "\x00./bpf/bpf_lxc.c\x00"
	header := make([]byte, 24) // struct btf_header
	binary.NativeEndian.PutUint16(header, 0xeb9f)
	header[2] = 1
	binary.NativeEndian.PutUint32(header[4:], uint32(len(header)))
	binary.NativeEndian.PutUint32(header[20:], uint32(len(strings)))
	return append(header, strings...)
}

// tableOf returns the table of programs that were loaded one after the other. If times is above 1,
// each program was unloaded and loaded again, and was loaded that many times in all.
func tableOf(programs, lines, times int) *timeline.Table {
	s := newSynthetic(lines)
	round, i := 0, 0
	return s.run(func() []perfring.Record {
		const burst = 64
		var records []perfring.Record
		for len(records) < burst && round < times {
			if round > 0 {
				records = append(records, s.unload(i)...)
			}
			records = append(records, s.load(i)...)
			if i++; i == programs {
				i, round = 0, round+1
			}
		}
		return records
	})
}

// benchTable measures how much memory a table of many programs needs, and how long a lookup in it
// takes.
func benchTable(rounds int) {
	const many, lines, old = 50_000, 64, 1 << 16
	var table *timeline.Table
	held, _ := memory(func() any {
		table = tableOf(many, 0, 1)
		return table
	})
	report("bpf_bytes_per_program", held/many)
	withLines, _ := memory(func() any { return tableOf(many/10, lines, 1) })
	report("bpf_bytes_per_program_of_64_lines", withLines/(many/10))

	addrs, starts := programAddresses(table)
	found := uint64(0)
	look := func(t *timeline.Table) func() {
		s, at := timeline.NewSnapshot(t), timeline.Instant(t.Certain()-1)
		return func() {
			for _, addr := range addrs {
				hit, _ := s.At(addr, at)
				found += hit.Symbol.Start
			}
		}
	}
	search := func() {
		for _, addr := range addrs {
			i, _ := slices.BinarySearch(starts, addr)
			found += uint64(i)
		}
	}
	t := medians(rounds, wall, task{run: look(table)}, task{run: search})
	report("bpf_lookup_vs_binary_search", ratio(t[0], t[1]))

	const space = old / 8 // each address had eight programs before
	plain := tableOf(space, 0, 1)
	one, _ := memory(func() any { return tableOf(space, 0, 1) })
	var past *timeline.Table
	all, _ := memory(func() any {
		past = tableOf(space, 0, 1+old/space)
		return past
	})
	report("history_bytes_per_entry", (all-one)/float64(past.Unloaded()))
	addrs, _ = programAddresses(plain)
	t = medians(rounds, wall, task{run: look(past)}, task{run: look(plain)})
	report("history_lookup_vs_plain", ratio(t[0], t[1]))
	runtime.KeepAlive(found)
}

// programAddresses returns random addresses inside the functions of a table, and the starts of the
// functions.
func programAddresses(t *timeline.Table) (addrs, starts []uint64) {
	for _, f := range t.Loaded() {
		starts = append(starts, f.Start)
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range 1 << 17 {
		addrs = append(addrs, starts[r.IntN(len(starts))]+r.Uint64N(programLen))
	}
	return addrs, starts
}
