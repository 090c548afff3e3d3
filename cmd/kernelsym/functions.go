// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// functions indexes the functions of the running kernel by name. A function can have several names,
// and a name several functions.
type functions struct {
	snapshot *timeline.Snapshot
	addrs    map[string][]uint64 // by the kernel's name
	rust     map[string][]string // the kernel's names, by readable name
}

// newFunctions indexes the functions of a snapshot, including the further names in kallsyms.
func newFunctions(s *timeline.Snapshot, procfs string) (*functions, error) {
	f := &functions{snapshot: s, addrs: make(map[string][]uint64), rust: make(map[string][]string)}
	err := eachSymbol(procfs, func(addr uint64, name string) { f.addrs[name] = append(f.addrs[name], addr) })
	if err != nil {
		return nil, err
	}
	for _, t := range s.Tables() {
		for _, m := range t.Loaded() {
			if m.IsFunction() && m.Name() != "" {
				f.addrs[m.Name()] = append(f.addrs[m.Name()], m.Start)
			}
		}
	}
	for name := range f.addrs {
		if readable := symtab.NameOf(name).Name; readable != name {
			f.rust[readable] = append(f.rust[readable], name)
		}
	}
	return f, nil
}

// eachSymbol calls visit for each code symbol of the core kernel and of modules. It stops there
// because the kernel takes long to list the rest, which the snapshot already has.
func eachSymbol(procfs string, visit func(addr uint64, name string)) error {
	file, err := os.Open(filepath.Join(procfs, "kallsyms"))
	if err != nil {
		return fmt.Errorf("reading kernel symbols: %w", err)
	}
	defer file.Close()
	scanner := kallsyms.NewScanner(file)
	for {
		var line kallsyms.Line
		err := scanner.Scan(&line)
		if module := string(line.Module); errors.Is(err, io.EOF) || module == "bpf" || strings.HasPrefix(module, "__builtin__") {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading kernel symbols: %w", err)
		}
		if symtab.IsCode(line.Type) {
			visit(line.Addr, string(line.Name))
		}
	}
}

// namedFunction is a function and the name by which it was found.
type namedFunction struct {
	hit   timeline.Hit
	asked string // the kernel's name
}

// find returns the functions that have a name or match a pattern, in the order of their addresses.
// It leaves out functions whose extent is unknown.
func (f *functions) find(name, module string) (found []namedFunction) {
	names := []string{name}
	if isPattern(name) {
		names = f.matching(name)
	} else {
		names = append(names, f.rust[name]...)
	}
	seen := make(map[uint64]bool)
	for _, each := range names {
		for _, addr := range f.addrs[each] {
			hit, _ := f.snapshot.At(addr, timeline.Present)
			if !hit.Symbol.Exists() || hit.Symbol.Start != addr || f.snapshot.IsShared(hit.Image) || seen[addr] {
				continue
			}
			if module != "" && (hit.Image.IsFunction() || hit.Image.Name() != module) {
				continue
			}
			seen[addr] = true
			found = append(found, namedFunction{hit, each})
		}
	}
	slices.SortFunc(found, func(a, b namedFunction) int { return cmp.Compare(a.hit.Symbol.Start, b.hit.Symbol.Start) })
	return found
}

// matching returns the names that match a pattern, sorted.
func (f *functions) matching(pattern string) (names []string) {
	wanted, err := newPatterns(pattern)
	if err != nil {
		return nil // the pattern was already checked when it was parsed
	}
	for name := range f.addrs {
		if wanted.match(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// alias returns the name asked for if it is not the function's own.
func (n *namedFunction) alias() string {
	if name := n.hit.Name(); n.asked != name.System && n.asked != name.Name {
		return n.asked
	}
	return ""
}

// between returns the functions with code in a range, in the order of their addresses.
func between(s *timeline.Snapshot, start, end uint64) (found []timeline.Hit) {
	for _, t := range s.Tables() {
		for _, m := range t.Loaded() {
			if m.Start >= end || m.End <= start || s.IsShared(m) {
				continue
			}
			for f := range m.Symbols() {
				if f.Start < end && f.End() > start {
					found = append(found, timeline.Hit{Image: m, Symbol: f})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b timeline.Hit) int { return cmp.Compare(a.Symbol.Start, b.Symbol.Start) })
	return found
}
