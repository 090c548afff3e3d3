// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/patterns"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// index has the functions of a space by name. A function can have several names, and a name several functions.
type index struct {
	in       space
	starts   map[string][]uint64 // by the kernel's name
	readable map[string][]string // the kernel's names, by readable name
}

// newIndex returns the index of the names that each passes on.
func newIndex(in space, each func(add func(name string, start uint64)) error) (*index, error) {
	x := &index{in: in, starts: make(map[string][]uint64), readable: make(map[string][]string)}
	if err := each(func(name string, start uint64) { x.starts[name] = append(x.starts[name], start) }); err != nil {
		return nil, err
	}
	for name := range x.starts {
		if readable := symtab.NameOf(name).Name; readable != name {
			x.readable[readable] = append(x.readable[readable], name)
		}
	}
	return x, nil
}

// functions returns the functions that a query names: those of packs, if there are any, or else those of the running kernel.
func (r *Resolver) functions(ctx context.Context, q *query) (found []function, err error) {
	indexes, err := r.indexes(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, x := range indexes {
		for _, f := range x.find(q.name) {
			if q.isIn(f.hit.Image) {
				found = append(found, f)
			}
		}
	}
	return found, nil
}

// indexes returns the indexes that can have the function of a query. No pack of another build than the query's is opened.
func (r *Resolver) indexes(ctx context.Context, q *query) (indexes []*index, err error) {
	if r.Packs == nil {
		if r.running == nil {
			if r.running, err = r.indexRunning(ctx); err != nil {
				return nil, err
			}
		}
		return []*index{r.running}, nil
	}
	images, err := r.imagesOf(q)
	if err != nil {
		return nil, err
	}
	for _, listed := range images {
		if q.module != "" && q.module != listed.Image.Pack.Info().Name {
			continue
		}
		x, err := r.indexPack(listed)
		if err != nil {
			return nil, err
		}
		indexes = append(indexes, x)
	}
	return indexes, nil
}

// imagesOf returns the packs that can have the function of a query: none if its build has no pack.
func (r *Resolver) imagesOf(q *query) ([]packview.Listed, error) {
	if q.build == "" {
		return r.Packs.All()
	}
	image, err := r.Packs.ByPrintedID(q.build)
	if errors.Is(err, packfiles.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return []packview.Listed{{Name: q.build, Image: image}}, nil
}

// indexPack returns the index of a pack.
func (r *Resolver) indexPack(listed packview.Listed) (*index, error) {
	if x := r.packs[listed.Image]; x != nil {
		return x, nil
	}
	text := listed.Image.Text
	x, err := newIndex(inPack(listed), func(add func(name string, start uint64)) error {
		for s := range text.Symbols() {
			add(text.SymbolName(s).System, s.Start)
		}
		return nil
	})
	if r.packs == nil {
		r.packs = make(map[*packview.Image]*index)
	}
	r.packs[listed.Image] = x
	return x, err
}

// indexRunning returns the index of the running kernel, including the further names in kallsyms.
func (r *Resolver) indexRunning(ctx context.Context) (*index, error) {
	snapshot, err := r.Kernel.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return newIndex(space{snapshot: snapshot}, func(add func(name string, start uint64)) error {
		for _, t := range snapshot.Tables() {
			for _, m := range t.Loaded() {
				if m.IsFunction() && m.Name() != "" {
					add(m.Name(), m.Start)
				}
			}
		}
		return eachSymbol(r.Kernel.Procfs, func(addr uint64, name string) { add(name, addr) })
	})
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

// function is a function, and the name by which it was found.
type function struct {
	in    space
	hit   timeline.Hit
	asked string // the kernel's name
}

// find returns the functions that have a name or match a pattern, in the order of their addresses.
// It leaves out functions whose extent is unknown.
func (x *index) find(name string) (found []function) {
	names := []string{name}
	if isPattern(name) {
		names = x.matching(name)
	} else {
		names = append(names, x.readable[name]...)
	}
	seen := make(map[uint64]bool)
	for _, each := range names {
		for _, addr := range x.starts[each] {
			hit, _ := x.in.snapshot.At(addr, timeline.Present)
			if !hit.Symbol.Exists() || hit.Symbol.Start != addr || x.in.snapshot.IsShared(hit.Image) || seen[addr] {
				continue
			}
			seen[addr] = true
			found = append(found, function{x.in, hit, each})
		}
	}
	slices.SortFunc(found, func(a, b function) int { return cmp.Compare(a.hit.Symbol.Start, b.hit.Symbol.Start) })
	return found
}

// matching returns the names that match a pattern, sorted.
func (x *index) matching(pattern string) (names []string) {
	wanted, err := patterns.New(pattern)
	if err != nil {
		return nil // the pattern was already checked when it was parsed
	}
	for name := range x.starts {
		if wanted.Match(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// alias returns the name asked for if it is not the function's own.
func (f *function) alias() string {
	if name := f.hit.Name(); f.asked != name.System && f.asked != name.Name {
		return f.asked
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

// Complete returns the names of functions of the running kernel that begin with prefix, sorted; none for a prefix of less than
// three letters, or if they cannot be read. procfs is where the machine's /proc is mounted.
func Complete(procfs, prefix string) (names []string) {
	const letters = 3 // fewer match thousands of names
	if len(prefix) < letters {
		return nil
	}
	err := eachSymbol(procfs, func(_ uint64, name string) {
		if strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, "__pfx_") {
			names = append(names, name)
		}
	})
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return slices.Compact(names)
}
