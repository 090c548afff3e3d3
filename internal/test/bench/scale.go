// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// benchScale reports what TestManyCPUs of package perfring measured, from a file with its output. A
// test can simulate CPUs; this program cannot.
func benchScale(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	figures := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "bench" {
			continue
		}
		if figures[fields[1]], err = strconv.ParseFloat(fields[2], 64); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if len(figures) == 0 {
		fmt.Println("node256_*: not measured,", file, "says why")
		return nil
	}
	var errs []error
	value := func(name string) float64 {
		v, ok := figures[name]
		if !ok {
			errs = append(errs, fmt.Errorf("%s has no %s", file, name))
		}
		return v
	}
	report("node256_open_files", value("node256_open_files"))
	report("node256_ring_bytes", value("node256_ring_bytes"))
	report("node256_start_ms", value("node256_start_ms"))
	report("node256_drain_us", value("node256_drain_us"))
	report("node256_refresh_us", value("node256_refresh_us"))
	report("node256_wakeups_idle", value("node256_wakeups_idle"))
	return errors.Join(errs...)
}
