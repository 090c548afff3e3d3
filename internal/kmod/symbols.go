// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"errors"
	"hash/maphash"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A parser builds the images of loads from the kernel's list of symbols.
//
// The kernel finds its position in the list by counting lines from the start. So if a module is loaded
// while the list is read, the kernel repeats some lines; if a module is unloaded, the kernel leaves
// some out:
//
//	lines of the list          a1 a2 b1 b2      the first two have been read
//	... after x was loaded     x1 x2 a1 a2 ...  the kernel goes on with the third: a1 and a2 are repeated
//	... after a was unloaded   b1 b2            there is no third: b1 and b2 are left out
//
// The parser calls a list inconsistent if it shows signs of that: a module or a line that occurs twice, or
// a module that was not loaded. There is no sign if a module earlier in the list was unloaded. And a line
// can also occur twice without any change: variables of size zero share an address, and can share a
// name. Then the next reading gives the same sum.
type parser struct {
	unread       map[string]*load          // modules that were not reached yet; nil for those not wanted
	images       map[*load]*timeline.Image // of the wanted loads; nil if a load has no symbols
	missing      int                       // how many of the wanted loads were not reached yet
	inconsistent bool
	sum          uint64 // of all lines, in their order

	module string // the one being read
	load   *load  // its load, nil if it is not wanted
	last   uint64 // the highest address of a symbol of code in it
	lines  lineSet
	sorter symtab.Sorter
}

func newParser(list []listEntry, wanted []*load) *parser {
	p := &parser{
		unread: make(map[string]*load), images: make(map[*load]*timeline.Image), missing: len(wanted),
		lines: lineSet{hashes: make([]uint64, 0, 1<<13), slots: make([]uint64, 0, 1<<14)},
	}
	for _, entry := range list {
		p.unread[entry.name] = nil
	}
	for _, l := range wanted {
		p.unread[l.name], p.images[l] = l, nil
	}
	return p
}

// parse reads a list of kernel symbols, up to and including the last of the wanted modules. If the
// list hides all addresses of modules, parse returns kallsyms.ErrRestricted.
func (p *parser) parse(r io.Reader) error {
	var line kallsyms.Line
	hidden, shown := false, false // lines without and with an address were read
	scanner := kallsyms.NewScanner(r)
	err := scanner.SkipToModules()
	for err == nil {
		if err = scanner.Scan(&line); err != nil {
			break
		}
		if string(line.Module) != p.module {
			p.endModule()
			if !isModule(string(line.Module)) {
				break
			}
			if p.beginModule(string(line.Module)); shown && p.missing == 0 {
				break
			}
		}
		hidden, shown = hidden || line.Addr == 0, shown || line.Addr != 0
		p.add(&line)
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case hidden && !shown:
		return kallsyms.ErrRestricted
	}
	p.endModule()
	return nil
}

// isModule reports whether a name in brackets is the name of a module. The kernel lists the names
// that are not (of BPF programs and of its own generated code) after all modules.
func isModule(name string) bool {
	return name != "bpf" && !strings.HasPrefix(name, "__builtin__")
}

// beginModule begins the lines of a module.
func (p *parser) beginModule(module string) {
	l, ok := p.unread[module]
	delete(p.unread, module)
	p.inconsistent = p.inconsistent || !ok
	p.module, p.load, p.last = module, l, 0
}

var lineSeed = maphash.MakeSeed()

// add adds a line.
func (p *parser) add(line *kallsyms.Line) {
	hash := line.Addr ^ maphash.Bytes(lineSeed, line.Name)
	p.sum = p.sum*31 + hash
	if line.Addr == 0 {
		return // absent, or hidden
	}
	p.lines.hashes = append(p.lines.hashes, hash)
	if l := p.load; l == nil || line.Addr < l.info.Start || line.Addr >= l.info.End {
		return
	}
	if symtab.IsCode(line.Type) {
		p.last = max(p.last, line.Addr)
	}
	p.sorter.Add(line.Addr, line.Type, line.Name)
}

// endModule ends the module being read, and builds its image if that is wanted.
func (p *parser) endModule() {
	p.inconsistent = p.lines.hasDuplicate() || p.inconsistent
	if p.load == nil {
		return
	}
	// There is no error: the first image of this load was built without one, and this one is not shorter.
	p.images[p.load], _ = p.load.image(&p.sorter, p.last)
	p.missing--
	p.load = nil
}

// A lineSet holds the lines of one module.
type lineSet struct {
	hashes []uint64 // one for each line, in the order of the list
	slots  []uint64 // a hash table with open addressing, kept to reuse its memory
}

// hasDuplicate reports whether a line occurs twice, and empties the set.
func (s *lineSet) hasDuplicate() bool {
	mask := uint64(2)<<bits.Len(uint(len(s.hashes))) - 1
	s.slots = slices.Grow(s.slots[:0], int(mask+1))[:mask+1]
	clear(s.slots)
	defer func() { s.hashes = s.hashes[:0] }()
	for _, hash := range s.hashes {
		slot := hash & mask
		for ; s.slots[slot] != 0; slot = (slot + 1) & mask {
			if s.slots[slot] == hash {
				return true
			}
		}
		s.slots[slot] = hash
	}
	return false
}
