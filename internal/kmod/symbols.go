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

// parser builds the images of loads of the kernel's list of symbols.
//
// The kernel finds the place of a line by counting lines from the start, so that
// a module that comes while the list is read makes it repeat some, and one that
// goes makes it leave some out. What the parser can see of that, it calls torn: a
// module or a line that stands there twice, and a module that was not loaded. What
// it cannot see is that a module went that was there before. Lines can also stand
// there twice for good: variables of no size have one address, and can have one
// name. Then the next read gives the same sum.
type parser struct {
	listed  map[string]*load          // modules that are listed and did not come yet: the load if it is wanted
	images  map[*load]*timeline.Image // of those that are wanted; nil if there are no symbols of it
	missing int                       // how many of them did not come yet
	torn    bool
	sum     uint64 // of all lines, in their order

	module string // the one being read
	load   *load  // its load, nil if it is not wanted
	last   uint64 // its highest symbol of code
	lines  lines
	sorter symtab.Sorter
}

func newParser(list []listed, wanted []*load) *parser {
	p := &parser{
		listed: make(map[string]*load), images: make(map[*load]*timeline.Image), missing: len(wanted),
		lines: lines{hashes: make([]uint64, 0, 1<<13), places: make([]uint64, 0, 1<<14)},
	}
	for _, is := range list {
		p.listed[is.name] = nil
	}
	for _, l := range wanted {
		p.listed[l.name], p.images[l] = l, nil
	}
	return p
}

// parse reads a list of kernel symbols, no further than to the last of the
// wanted modules. It returns kallsyms.ErrRestricted if it hides all addresses of
// modules.
func (p *parser) parse(r io.Reader) error {
	var line kallsyms.Line
	hidden, shown := false, false
	scanner := kallsyms.NewScanner(r)
	err := scanner.SkipToModules()
	for err == nil {
		if err = scanner.Scan(&line); err != nil {
			break
		}
		if string(line.Module) != p.module {
			p.finish()
			if !isModule(string(line.Module)) {
				break
			}
			if p.begin(string(line.Module)); shown && p.missing == 0 {
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
	p.finish()
	return nil
}

// isModule reports whether a name in brackets is that of a module. Those that
// are not come last.
func isModule(name string) bool {
	return name != "bpf" && !strings.HasPrefix(name, "__builtin__")
}

// begin begins a module.
func (p *parser) begin(module string) {
	l, ok := p.listed[module]
	delete(p.listed, module)
	p.torn = p.torn || !ok
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

// finish ends the module being read.
func (p *parser) finish() {
	p.torn = p.lines.anyTwice() || p.torn
	if p.load == nil {
		return
	}
	// The first image of the load was in order, and this one is not shorter.
	p.images[p.load], _ = p.load.image(&p.sorter, p.last)
	p.missing--
	p.load = nil
}

// lines are those of one module.
type lines struct{ hashes, places []uint64 }

// anyTwice reports whether one stands there twice, and forgets them.
func (l *lines) anyTwice() bool {
	mask := uint64(2)<<bits.Len(uint(len(l.hashes))) - 1
	l.places = slices.Grow(l.places[:0], int(mask+1))[:mask+1]
	clear(l.places)
	defer func() { l.hashes = l.hashes[:0] }()
	for _, hash := range l.hashes {
		at := hash & mask
		for ; l.places[at] != 0; at = (at + 1) & mask {
			if l.places[at] == hash {
				return true
			}
		}
		l.places[at] = hash
	}
	return false
}
