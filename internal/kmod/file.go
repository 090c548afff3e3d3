// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"math"
	"slices"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A File is a module as its file describes it, before anything is loaded.
type File struct {
	Name    string // as the kernel writes it
	BuildID string
	Arch    string // as GOARCH has it
	Release string // of the kernel it is built for, empty if it is not known

	// Sections are the executable sections that stay loaded, in their order, at the addresses
	// at which they would be: the first begins with a page.
	Sections []FileSection

	// PLTFollows says that the kernel lays .plt out behind the sections, as long as the module
	// needs it (arm64, arch/arm64/kernel/module-plts.c). If it does not on arm64, .plt is before
	// them: where in a page they begin is not known then.
	PLTFollows bool
}

// A FileSection is an executable section of a file.
type FileSection struct {
	Name       string
	Start, End uint64
}

// Image makes the image that a Source would publish for the module, loaded at the addresses of
// its sections. symbols calls its argument for the symbols in the order of the file, with a
// type as the kernel gives it. It returns nil if the module has no code.
func (f *File) Image(symbols func(add func(addr uint64, typ byte, name []byte))) (*timeline.Image, error) {
	l := f.load()
	if !l.hasCode() {
		return nil, nil //nolint:nilnil // nothing is wrong with a module without code
	}
	l.settle(l.others)
	var sorter symtab.Sorter
	last := uint64(0)
	symbols(func(addr uint64, typ byte, name []byte) {
		if addr < l.info.Start || addr >= l.info.End {
			return
		}
		if symtab.IsCode(typ) {
			last = max(last, addr)
		}
		sorter.Add(addr, typ, name)
	})
	return l.image(&sorter, last)
}

// load returns what describe finds out once the module is loaded.
func (f *File) load() *load {
	l := &load{ends: endRuleOf(f.Arch, f.Release)}
	l.name = f.Name
	l.info = symtab.TextInfo{BuildID: f.BuildID, FileID: buildid.FileID(f.BuildID)}
	l.initial = math.MaxUint64
	end := uint64(0)
	for _, s := range f.Sections {
		end = max(end, s.End)
		switch {
		case s.Start == s.End:
		case isCode(s.Name):
			l.code = append(l.code, s.Start)
			if s.Name == ".text" {
				l.text = s.Start
			}
		case l.ends == endsAtNext:
			l.others = append(l.others, s.Start)
		}
	}
	if len(l.code) == 0 {
		return l
	}
	if f.PLTFollows {
		const cacheLine = 64
		end = (end + cacheLine - 1) &^ (cacheLine - 1)
		l.code = append(l.code, end)
	}
	slices.Sort(l.code)
	slices.Sort(l.others)
	if l.text == 0 {
		l.text = l.code[0]
	}
	l.info.Base, l.info.Start = l.text, l.code[0]
	if l.size = end - l.text; f.Arch != "arm64" || f.PLTFollows {
		l.size = pageEnd(end-1) - l.text // what is not text begins with another page
	}
	return l
}
