// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A load is a module from when it is loaded until it is unloaded.
type load struct {
	name   string
	size   uint64 // in bytes, from the list; from coresize if the end depends on it
	addr   uint64 // as in the list
	layout layout

	buildID     string          // which build it is, empty if it has no build id
	info        symtab.TextInfo // its end is the limit of the load's symbols
	ends        endRule
	symbolsRead bool      // the symbols were read, or the load has no code
	err         error     // why the build id or the layout is missing
	added       time.Time // when the "add" event was read; zero if none was
	announced   bool      // its "add" event was read, or may have come while events were not read
}

// readLoad reads from sysfs where a module in the list lies and which build it is. It returns nil
// if the module is no longer live.
func (r *roots) readLoad(entry listEntry, ends endRule) *load {
	l := &load{name: entry.name, size: entry.size, addr: entry.addr, ends: ends}
	if l.addr == 0 && ends == endsWithPage {
		l.symbolsRead = true
		return l
	}
	var sectionsErr, notesErr error
	l.layout, sectionsErr = r.readLayout(l.name, ends)
	l.buildID, notesErr = r.readBuildID(l.name)
	err := errors.Join(sectionsErr, notesErr)
	switch {
	case (err != nil || l.buildID == "") && !r.isLoaded(l.name):
		return nil // the kernel removes the notes first
	case errors.Is(err, fs.ErrNotExist):
		l.err = fmt.Errorf("module frames get no build id and no file ID: %w: check that sysfs is mounted there", err)
	case err != nil:
		l.err = fmt.Errorf("module frames get no build id and no file ID: %w", err)
	}
	if sectionsErr != nil {
		l.layout = layout{text: l.addr, code: []uint64{l.addr}, initial: l.layout.initial}
	} else { // a build id promises offsets, and offsets are relative to .text
		l.info.BuildID, l.info.FileID, l.info.Base = l.buildID, buildid.FileID(l.buildID), l.layout.text
	}
	if l.symbolsRead = len(l.layout.code) == 0 || l.layout.code[0] == 0; l.symbolsRead {
		return l
	}
	l.info.Start = l.layout.code[0]
	if ends == endsAtNext {
		l.size = cmp.Or(r.readCoreSize(l.name), l.size)
	}
	return l
}

// matches reports whether a list shows this load, if the module in the list has the given build id
// (contract 5.2).
func (l *load) matches(entry listEntry, buildID string) bool {
	return buildID != "" && l.buildID == buildID && l.addr == entry.addr
}

// hasCode reports whether the load has an image.
func (l *load) hasCode() bool { return l.info.Start != 0 }

// fixEnd determines where the load ends, once and for all. starts are the addresses at which
// anything else begins, sorted.
func (l *load) fixEnd(starts []uint64) {
	if l.hasCode() {
		l.info.End = l.layout.limit(l.size, starts)
	}
}

// starts returns the addresses at which the code of another module below them ends at the latest.
func (l *load) starts() []uint64 {
	if !l.hasCode() {
		return l.layout.others
	}
	return append(slices.Clip(l.layout.others), l.layout.code[0])
}

// image builds the load's image from its symbols. last is the highest address of a symbol of code, 0
// if the symbols have not been read.
func (l *load) image(symbols *symtab.Sorter, last uint64) (*timeline.Image, error) {
	info := l.info
	if l.ends == endsWithPage {
		info.End = min(info.End, pageEnd(max(last, l.layout.code[len(l.layout.code)-1])))
	}
	if last != 0 {
		for _, addr := range l.layout.code {
			symbols.Add(addr, 'd', []byte("section")) // ends the symbol before it, and gives no name
		}
	}
	text, err := symbols.Build(info)
	if err != nil {
		return nil, err
	}
	return timeline.NewImage(timeline.OriginModule, l.name, text, timeline.Always), nil
}
