// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// framesPerProfile is the number of kernel frames in each profile that is sent.
var framesPerProfile = kerneltest.Sized(1000, 100)

// truth has the kernel's functions. It is read without the code under test.
type truth struct {
	starts []uint64
	names  map[uint64][]string // by start
	end    uint64              // end of core text

	sent  []uint64 // starts of functions
	wants []string // their names
}

// readTruth reads the code symbols of the core kernel from the kernel's list.
func readTruth() (*truth, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &truth{names: make(map[uint64][]string)}
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		if strings.Contains(scanner.Text(), "[") {
			break // modules
		}
		fields := strings.Fields(scanner.Text()) // fmt.Sscanf takes ten times as long
		if len(fields) != 3 {
			return nil, fmt.Errorf("/proc/kallsyms: %q", scanner.Text())
		}
		addr, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/kallsyms: %w", err)
		}
		typ, name := fields[1], fields[2]
		if name == "_etext" {
			t.end = addr
		}
		if addr>>63 == 1 && slices.Contains([]string{"t", "T", "w", "W"}, typ) {
			t.names[addr] = append(t.names[addr], name)
		}
	}
	t.starts = slices.Sorted(maps.Keys(t.names))
	for _, addr := range t.starts {
		if names := t.names[addr]; addr < t.end && len(t.sent) < framesPerProfile && len(names) == 1 && isPlain(names[0]) {
			t.sent, t.wants = append(t.sent, addr), append(t.wants, names[0])
		}
	}
	if len(t.sent) < framesPerProfile {
		return nil, errors.New("the kernel hides its symbols; not root?")
	}
	return t, nil
}

// isPlain reports whether a name belongs to a function, and is not a marker.
func isPlain(name string) bool {
	return !strings.ContainsAny(name, ".$") && !strings.Contains(name, "__") && !strings.HasPrefix(name, "_") &&
		!strings.HasSuffix(name, "_start") && !strings.HasSuffix(name, "_end")
}

// message returns a profile of kernel functions. Its resource has the id.
func (t *truth) message(id string) pprofile.Profiles {
	m := rewritetest.NewMessage().Profile(map[string]any{idKey: id}, "")
	for _, addr := range t.sent {
		m.Sample(rewritetest.Frame{Address: addr, Type: "kernel"})
	}
	return m.Profiles
}

// isName reports whether an address of core text can have a name. It must be the name of the
// function that the address lies in or, for a return address, of the function before it.
func (t *truth) isName(addr uint64, name string) bool {
	i, exact := slices.BinarySearch(t.starts, addr)
	if !exact {
		i--
	}
	if slices.Contains(t.names[t.starts[i]], name) {
		return true
	}
	return exact && i > 0 && slices.Contains(t.names[t.starts[i-1]], name)
}
