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
	Arch    string // named as in GOARCH
	Release string // of the kernel that the module was built for, empty if it is not known

	// Sections are the executable sections that stay loaded, in ascending order, at the addresses
	// that they would have: the first begins at the start of a page.
	Sections []FileSection

	// PLTFollows says that the kernel places .plt behind the sections, if the module needs it (arm64,
	// arch/arm64/kernel/module-plts.c). If it does not on arm64, .plt lies before the sections, and it
	// is not known where in a page they begin.
	PLTFollows bool
}

// A FileSection is an executable section of a file.
type FileSection struct {
	Name       string
	Start, End uint64
}

// Image makes the image that a Source would publish for the module, if it were loaded at the
// addresses of its sections. symbols calls its argument for every symbol, in the order of the file,
// with a type as the kernel gives it. If the module has no code, Image returns nil.
func (f *File) Image(symbols func(add func(addr uint64, typ byte, name []byte))) (*timeline.Image, error) {
	l := f.load()
	if !l.hasCode() {
		return nil, nil //nolint:nilnil // a module without code is not an error
	}
	l.fixEnd(l.layout.others)
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

// load returns the load that readLoad would return once the module is loaded.
func (f *File) load() *load {
	l := &load{
		name: f.Name, ends: endRuleOf(f.Arch, f.Release),
		info: symtab.TextInfo{BuildID: f.BuildID, FileID: buildid.FileID(f.BuildID)},
	}
	at := &l.layout
	at.initial = math.MaxUint64
	end := uint64(0)
	for _, s := range f.Sections {
		end = max(end, s.End)
		switch {
		case s.Start == s.End:
		case isCode(s.Name):
			at.code = append(at.code, s.Start)
			if s.Name == ".text" {
				at.text = s.Start
			}
		case l.ends == endsAtNext:
			at.others = append(at.others, s.Start)
		}
	}
	if len(at.code) == 0 {
		return l
	}
	if f.PLTFollows {
		const cacheLine = 64
		end = (end + cacheLine - 1) &^ (cacheLine - 1)
		at.code = append(at.code, end)
	}
	slices.Sort(at.code)
	slices.Sort(at.others)
	if at.text == 0 {
		at.text = at.code[0]
	}
	l.info.Base, l.info.Start = at.text, at.code[0]
	if l.size = end - at.text; f.Arch != "arm64" || f.PLTFollows {
		l.size = pageEnd(end-1) - at.text // everything other than text begins on another page
	}
	return l
}
