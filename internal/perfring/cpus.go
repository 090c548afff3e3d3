// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// OnlineCPUs returns the numbers of the CPUs that are online, sorted, where sysfs is mounted at a
// place.
func OnlineCPUs(sysfs string) ([]int, error) {
	name := filepath.Join(sysfs, "devices", "system", "cpu", "online")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, filesError(err)
	}
	cpus, err := ParseCPUs(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cpus, nil
}

// maxCPU bounds the numbers believed. NR_CPUS is at most 8192 (arch/x86/Kconfig).
const maxCPU = 1 << 16

// ParseCPUs parses a list of CPUs as "0-3,5", sorted (cpumap_print_to_pagebuf).
func ParseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("CPU list %q: %w", list, err)
		}
		to, err := strconv.ParseUint(last, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("CPU list %q: %w", list, err)
		}
		if from > to {
			return nil, fmt.Errorf("CPU list %q: %s is no range", list, part)
		}
		for cpu := from; cpu <= to; cpu++ {
			if len(cpus) > 0 && int(cpu) <= cpus[len(cpus)-1] || len(cpus) == maxCPU {
				return nil, fmt.Errorf("CPU list %q is not sorted", list)
			}
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}
