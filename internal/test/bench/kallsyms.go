// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// benchKallsyms measures building the core kernel's table, from the file and from a copy in memory.
func benchKallsyms(list []byte, core *timeline.Image, rounds int) error {
	var errs []error
	load := func() {
		f, err := os.Open("/proc/kallsyms")
		if err != nil {
			errs = append(errs, err)
			return
		}
		defer f.Close()
		_, err = kallsyms.ParseCore(f, runtime.GOARCH, "", "")
		errs = append(errs, err)
	}
	// The rest of the file is data and modules, which the core's table does not need. It is part of
	// the ratios below.
	report("kallsyms_part_needed", float64(bytes.Index(list, []byte(" _einittext\n")))/float64(len(list)))
	buf := make([]byte, 1<<16)
	read := func() {
		f, err := os.Open("/proc/kallsyms")
		if err != nil {
			errs = append(errs, err)
			return
		}
		defer f.Close()
		for err == nil {
			_, err = f.Read(buf)
		}
		if !errors.Is(err, io.EOF) {
			errs = append(errs, err)
		}
	}
	t := medians(rounds, cpu, task{run: load}, task{run: read})
	report("kallsyms_load_vs_read", ratio(t[0], t[1]))

	parse := func() {
		_, err := kallsyms.ParseCore(bytes.NewReader(list), runtime.GOARCH, "", "")
		errs = append(errs, err)
	}
	lines := 0
	scan := func() {
		for rest := list; ; lines++ {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				return
			}
			rest = rest[end+1:]
		}
	}
	t = medians(rounds, wall, task{run: parse}, task{run: scan})
	report("kallsyms_parse_vs_scan", ratio(t[0], t[1]))

	table, allocated := memory(func() any {
		m, err := kallsyms.ParseCore(bytes.NewReader(list), runtime.GOARCH, "", "")
		errs = append(errs, err)
		return m
	})
	report("symtab_bytes_per_symbol", table/float64(core.Len()))
	report("load_alloc_vs_table", allocated/table)
	runtime.KeepAlive(list) // or its memory would be counted as freed
	return errors.Join(errs...)
}

// memory returns the bytes of heap that the result of f uses, and the bytes allocated to make it.
func memory(f func() any) (held, allocated float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // the first only finds objects with finalizers
	runtime.ReadMemStats(&before)
	result := f()
	runtime.ReadMemStats(&after)
	allocated = float64(after.TotalAlloc - before.TotalAlloc)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	held = float64(after.HeapAlloc) - float64(before.HeapAlloc)
	runtime.KeepAlive(result)
	return held, allocated
}
