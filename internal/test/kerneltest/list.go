// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"bufio"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Symbols is the code in the running kernel's symbol list, without modules. It is read without the
// code under test.
type Symbols struct {
	Names        map[uint64][]string // of type t, T, w or W, by address, in order
	Stext, Etext uint64              // first and end of core text
	Address      map[string]uint64   // address of the last symbol with a name

	starts []uint64
}

// symbols has what ReadSymbols has read. It stays the same until the next boot, and reading it
// takes several seconds in a virtual machine.
var symbols struct {
	sync.Mutex
	*Symbols
}

// ReadSymbols reads /proc/kallsyms, once for all tests of a process. The caller must not change the
// result.
func ReadSymbols(t testing.TB) *Symbols {
	t.Helper()
	symbols.Lock()
	defer symbols.Unlock()
	if symbols.Symbols == nil || symbols.Stext == 0 { // or its addresses were hidden
		symbols.Symbols = readSymbols(t)
	}
	return symbols.Symbols
}

func readSymbols(t testing.TB) *Symbols {
	t.Helper()
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &Symbols{Names: make(map[uint64][]string, 1<<16), Address: make(map[string]uint64, 1<<17)}
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		line := scanner.Text()
		if strings.HasSuffix(line, "]") {
			break // a module's
		}
		address, rest, _ := strings.Cut(line, " ") // fmt.Sscanf takes ten times as long
		typ, name, ok := strings.Cut(rest, " ")
		addr, err := strconv.ParseUint(address, 16, 64)
		if err != nil || !ok {
			t.Fatalf("/proc/kallsyms: %q, %v", line, err)
		}
		switch name {
		case "_stext":
			s.Stext = addr
		case "_etext":
			s.Etext = addr
		}
		s.Address[name] = addr
		switch typ {
		case "t", "T", "w", "W":
			s.Names[addr] = append(s.Names[addr], name)
		}
	}
	s.starts = slices.Sorted(maps.Keys(s.Names))
	return s
}

// InText reports whether an address lies in core text or init text.
func (s *Symbols) InText(addr uint64) bool {
	return s.Stext <= addr && addr < s.Etext || s.Address["_sinittext"] <= addr && addr < s.Address["_einittext"]
}

// After returns the first address above addr that has names.
func (s *Symbols) After(addr uint64) uint64 {
	i, found := slices.BinarySearch(s.starts, addr)
	if found {
		i++
	}
	if i == len(s.starts) {
		return 1<<64 - 1
	}
	return s.starts[i]
}

// Below returns the names at the last address up to addr that has any, and that
// address.
func (s *Symbols) Below(addr uint64) (names []string, start uint64) {
	i, found := slices.BinarySearch(s.starts, addr)
	if !found {
		i--
	}
	if i < 0 {
		return nil, 0
	}
	return s.Names[s.starts[i]], s.starts[i]
}
