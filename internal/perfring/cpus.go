// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// OnlineCPUs returns the sorted numbers of the online CPUs. sysfs is the path where sysfs is
// mounted.
func OnlineCPUs(sysfs string) ([]int, error) { return readCPUs(sysfs, "online") }

// readCPUs returns the sorted numbers of the CPUs in a list in sysfs, such as "online" or "possible".
func readCPUs(sysfs, list string) ([]int, error) {
	name := filepath.Join(sysfs, "devices", "system", "cpu", list)
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

// maxCPU bounds the length of a list. NR_CPUS is at most 8192 (arch/x86/Kconfig).
const maxCPU = 1 << 16

// ParseCPUs parses a sorted list of CPUs, such as "0-3,5" (cpumap_print_to_pagebuf).
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
			return nil, fmt.Errorf("CPU list %q: %s is not a range", list, part)
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
