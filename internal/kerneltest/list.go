package kerneltest

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Symbols is the code of the running kernel's symbol list without modules, read
// without the code under test.
type Symbols struct {
	Names        map[uint64][]string // of type t, T, w or W, by address, in order
	Stext, Etext uint64              // first and end of core text

	starts []uint64
}

// ReadSymbols reads /proc/kallsyms.
func ReadSymbols(t testing.TB) *Symbols {
	t.Helper()
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &Symbols{Names: make(map[uint64][]string)}
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var addr uint64
		var typ, name string
		if _, err := fmt.Sscanf(scanner.Text(), "%x %s %s", &addr, &typ, &name); err != nil {
			t.Fatalf("%v: %q", err, scanner.Text())
		}
		switch name {
		case "_stext":
			s.Stext = addr
		case "_etext":
			s.Etext = addr
		}
		switch typ {
		case "t", "T", "w", "W":
			s.Names[addr] = append(s.Names[addr], name)
		}
		if strings.HasSuffix(scanner.Text(), "]") {
			break
		}
	}
	s.starts = slices.Sorted(maps.Keys(s.Names))
	return s
}

// InText reports whether an address lies in core text.
func (s *Symbols) InText(addr uint64) bool { return s.Stext <= addr && addr < s.Etext }

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
